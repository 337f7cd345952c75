package e2e

import (
	"fmt"
	"image"
	"strings"
	"testing"

	"sightline/tests/fakemodel"
)

// says makes a model that always answers the same.
func says(text string) func(fakemodel.Request) fakemodel.Reply {
	return func(fakemodel.Request) fakemodel.Reply { return fakemodel.Reply{Text: text} }
}

// steps makes a model that plays one reply after the other, and the last one
// for ever.
func steps(list ...func(fakemodel.Request) fakemodel.Reply) func(fakemodel.Request) fakemodel.Reply {
	at := 0
	return func(r fakemodel.Request) fakemodel.Reply {
		f := list[at]
		if at < len(list)-1 {
			at++
		}
		return f(r)
	}
}

func calls(name, args string) func(fakemodel.Request) fakemodel.Reply {
	return func(r fakemodel.Request) fakemodel.Reply {
		return fakemodel.Reply{Calls: []fakemodel.Call{{ID: fmt.Sprintf("call_%d", len(r.Messages)), Name: name, Arguments: args}}}
	}
}

// views calls view_images on the file of that name, as its marker tells it.
func views(name string) func(fakemodel.Request) fakemodel.Reply {
	return func(r fakemodel.Request) fakemodel.Reply {
		return calls("view_images", fmt.Sprintf(`{"ids":[%q]}`, attachmentID(r, name)))(r)
	}
}

// The main job: a posted screenshot reaches the model pixel by pixel, by
// itself and through several steps; turns later it is found by ID, looked at
// again, whole and in part; and pictures that are not shown are not sent.
func TestPicturesReachTheModel(t *testing.T) {
	for _, api := range []string{"chat", "responses"} {
		t.Run(api, func(t *testing.T) {
			m, env := fake(t, nil)
			p := start(t, home(t), append(env, "SIGHTLINE_MODEL_API="+api)...)
			shot, shotPix := noise(t, 200, 120, 1)
			other, otherPix := noise(t, 90, 90, 2)
			var n int
			request := func(i int) fakemodel.Request { return m.Requests()[n+i] }
			expect := func(turn string, want ...[]image.Image) {
				t.Helper()
				got := m.Requests()[n:]
				if len(got) != len(want) {
					t.Fatalf("%s: %d requests, want %d", turn, len(got), len(want))
				}
				for i, pics := range want {
					if len(got[i].Pictures) != len(pics) {
						t.Fatalf("%s, request %d: %d pictures, want %d\n%s", turn, i, len(got[i].Pictures), len(pics), got[i].System)
					}
					for j, p := range pics {
						if !samePixels(got[i].Pictures[j].Image, p) {
							t.Errorf("%s, request %d, picture %d: other pixels arrived", turn, i, j)
						}
					}
				}
			}
			S, O := shotPix, otherPix

			// The current message's pictures, through three more steps.
			m.Answer(steps(calls("list_documents", `{}`), calls("list_documents", `{"limit":1}`), calls("list_documents", ``), says("two pictures")))
			a := ask(t, p.Client, "c", "what are these?", file{"shot.png", shot}, file{"other.png", other})
			if a.State != "answered" || a.Text != "two pictures" {
				t.Fatalf("%+v", a)
			}
			expect("turn 1", []image.Image{S, O}, []image.Image{S, O}, []image.Image{S, O}, []image.Image{S, O})
			id := attachmentID(request(0), "shot.png")
			if !strings.Contains(request(0).Pictures[0].Label, id) || !strings.Contains(request(0).System, id) {
				t.Errorf("label %q does not name %s, or the prompt does not", request(0).Pictures[0].Label, id)
			}
			n = len(m.Requests())

			// A turn without pictures loads none.
			m.Answer(says("fine"))
			ask(t, p.Client, "c", "how are you?")
			expect("turn 2", []image.Image{})
			if s := request(0).System; !strings.Contains(s, "None is shown") {
				t.Errorf("turn 2's prompt: %s", s)
			}
			n = len(m.Requests())

			// Turns later it is listed, seen again, and then a region of it at
			// native resolution; each selection replaces the one before.
			m.Answer(steps(
				calls("list_documents", `{}`),
				func(r fakemodel.Request) fakemodel.Reply {
					if !strings.Contains(r.Last("tool"), id) || !strings.Contains(r.Last("tool"), `"width":200`) {
						t.Errorf("the inventory lacks the picture: %s", r.Last("tool"))
					}
					return views("shot.png")(r)
				},
				calls("view_images", fmt.Sprintf(`{"regions":[{"id":%q,"x":50,"y":40,"width":30,"height":20}]}`, id)),
				says("seen"),
			))
			if a := ask(t, p.Client, "c", "look at the first one again"); a.Text != "seen" {
				t.Fatalf("%+v", a)
			}
			expect("turn 3", []image.Image{}, []image.Image{}, []image.Image{S}, []image.Image{crop(S, image.Rect(50, 40, 80, 60))})
			n = len(m.Requests())

			// An explicit selection replaces the message's own picture.
			m.Answer(steps(views("other.png"), says("the older one")))
			ask(t, p.Client, "c", "compare with the other", file{"third.png", shot})
			expect("turn 4", []image.Image{S}, []image.Image{O})
			n = len(m.Requests())

			// An image and no text is a prompt.
			m.Answer(says("an image alone"))
			if a := ask(t, p.Client, "c", "", file{"alone.png", other}); a.Text != "an image alone" {
				t.Errorf("%+v", a)
			}
			expect("turn 5", []image.Image{O})

			// Another conversation can't see any of it.
			n = len(m.Requests())
			m.Answer(steps(
				calls("list_documents", `{}`),
				calls("view_images", fmt.Sprintf(`{"ids":[%q]}`, id)),
				calls("view_images", fmt.Sprintf(`{"regions":[{"id":%q,"x":0,"y":0,"width":9,"height":9}]}`, id)),
				calls("view_images", `{"ids":["att_00000000000000000000000000"]}`),
				says("nothing"),
			))
			ask(t, p.Client, "elsewhere", "show me "+id)
			expect("another conversation", []image.Image{}, []image.Image{}, []image.Image{}, []image.Image{}, []image.Image{})
			if l := request(1).Last("tool"); !strings.Contains(l, `"total":0`) {
				t.Errorf("its inventory: %s", l)
			}
			foreign := strings.ReplaceAll(request(2).Last("tool"), id, "ID")
			missing := strings.ReplaceAll(request(4).Last("tool"), "att_00000000000000000000000000", "ID")
			if foreign != missing {
				t.Errorf("foreign and missing differ:\n%s\n%s", foreign, missing)
			}
		})
	}
}
