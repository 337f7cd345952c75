package offline

import (
	"image/color"
	"strings"
	"testing"

	"sightline/agent"
)

func contains(t *testing.T, answer string, want ...string) {
	t.Helper()
	for _, s := range want {
		if !strings.Contains(answer, s) {
			t.Errorf("no %q in:\n%s", s, answer)
		}
	}
}

func lacks(t *testing.T, answer string, not ...string) {
	t.Helper()
	for _, s := range not {
		if strings.Contains(answer, s) {
			t.Errorf("%q in:\n%s", s, answer)
		}
	}
}

func TestReadsThePictureOfTheMessage(t *testing.T) {
	w := newWorld(t, reader(t))
	a := w.say("what does it say?", w.postText("shot.png", "INVOICE 4711\nTotal 93.20"))
	contains(t, a, introduction, "shot.png", "PNG", "(whole)", "white", "black", "INVOICE 4711", "Total 93.20")
	if len(w.calls) != 0 {
		t.Errorf("calls: %s", w.called())
	}
	a = w.say("and hello")
	lacks(t, a, introduction)
}

func TestReadsAnEarlierPictureOverSeveralSteps(t *testing.T) {
	w := newWorld(t, reader(t))
	w.pageSize = 2
	first := w.postText("alpha.png", "ALPHA SEVEN")
	w.say("here", first)
	w.postText("beta.png", "BRAVO EIGHT")
	w.postText("gamma.png", "GAMMA NINE")
	tests := []struct{ ask, calls, text string }{
		{"what does the first picture say?", "list_documents, list_documents, view_images alpha.png", "ALPHA SEVEN"},
		{"Ann: <@U123> please read the second image", "list_documents, list_documents, view_images beta.png", "BRAVO EIGHT"},
		{"read the last picture", "list_documents, list_documents, view_images gamma.png", "GAMMA NINE"},
		{"describe the latest screenshot", "list_documents, list_documents, view_images gamma.png", "GAMMA NINE"},
		{"now look at the picture before", "list_documents, list_documents, view_images beta.png", "BRAVO EIGHT"},
		{"and the previous one?", "list_documents, list_documents, view_images alpha.png", "ALPHA SEVEN"},
		{"what is in beta.png", "list_documents, list_documents, view_images beta.png", "BRAVO EIGHT"},
		{"what is in BETA.PNG?", "list_documents, list_documents, view_images beta.png", "BRAVO EIGHT"},
		{`look at "alpha"`, "list_documents, list_documents, view_images alpha.png", "ALPHA SEVEN"},
		{"please read gamma again", "list_documents, list_documents, view_images gamma.png", "GAMMA NINE"},
		{"what does " + string(first.id) + " say", "view_images alpha.png", "ALPHA SEVEN"},
		{"read picture 3", "list_documents, list_documents, view_images gamma.png", "GAMMA NINE"},
		{"read image #2", "list_documents, list_documents, view_images beta.png", "BRAVO EIGHT"},
		{"the second to last picture, please", "list_documents, list_documents, view_images beta.png", "BRAVO EIGHT"},
		{"what does it say?", "list_documents, list_documents, view_images gamma.png", "GAMMA NINE"},
	}
	for _, tt := range tests {
		a := w.say(tt.ask)
		if got := w.called(); got != tt.calls {
			t.Errorf("%q: calls %q, want %q", tt.ask, got, tt.calls)
		}
		contains(t, a, tt.text)
		for _, other := range []string{"ALPHA SEVEN", "BRAVO EIGHT", "GAMMA NINE"} {
			if other != tt.text {
				lacks(t, a, other)
			}
		}
	}
}

func TestChoices(t *testing.T) {
	w := newWorld(t, blind())
	for _, n := range []string{"one.png", "two.png", "three.png", "four.png", "five.png"} {
		w.post(n, "image/png", pngOf(t, plain(color.White, 20, 20)))
	}
	pdf := w.post("report.pdf", "application/pdf", []byte("%PDF"))
	pdf.reason = "a PDF, which is a document and not a picture"
	tests := map[string]string{
		"look at the first and the third picture":  "view_images one.png three.png",
		"compare pictures 2 and 4":                 "view_images two.png four.png",
		"describe the last two pictures":           "view_images four.png five.png",
		"show me all pictures":                     "view_images two.png three.png four.png five.png",
		"the 4th photo":                            "view_images four.png",
		"describe one.png and five.png":            "view_images one.png five.png",
		"at first I saw nothing in the 2nd image":  "view_images two.png",
		"describe both":                            "view_images four.png five.png",
		"the fifth file":                           "view_images five.png",
		"look at the last file":                    "",
		"read the ninth picture":                   "",
		"read report.pdf":                          "",
		"read missing.png":                         "",
		"what does the picture called \"x\" show?": "",
	}
	for ask, want := range tests {
		w.say(ask)
		got := strings.TrimPrefix(strings.TrimPrefix(w.called(), "list_documents"), ", ")
		if got != want {
			t.Errorf("%q: %q, want %q", ask, got, want)
		}
	}
}

func TestNothingMatchesListsWhatThereIs(t *testing.T) {
	w := newWorld(t, blind())
	w.postText("real.png", "X")
	heic := w.post("photo.heic", "image/heic", []byte("x"))
	heic.reason = "HEIC can't be shown: post a PNG"
	a := w.say("what is in fake.png?")
	contains(t, a, `Nothing here is called "fake.png"`, "real.png", "photo.heic", "HEIC can't be shown")
	if w.called() != "list_documents" {
		t.Errorf("calls %q", w.called())
	}
	contains(t, w.say("read the third picture"), "There is no such picture: there are 2.", "real.png")
	contains(t, w.say("what's in the last picture?"), "photo.heic", "can't be looked at: HEIC can't be shown")
	contains(t, newWorld(t, blind()).say("what does the picture say"), "Nothing was posted")
}

func TestLists(t *testing.T) {
	w := newWorld(t, blind())
	w.pageSize = 1
	w.postText("a.png", "A")
	w.post("notes.txt", "text/plain", []byte("hello")).reason = "not a picture"
	for _, ask := range []string{"list the files", "please list all documents", "what files are there?", "Which pictures do you have?", "how many attachments are there", "are there any images?"} {
		a := w.say(ask)
		if w.called() != "list_documents, list_documents" {
			t.Errorf("%q: calls %q", ask, w.called())
		}
		contains(t, a, "2 files", "1. a.png (att_", "2. notes.txt (att_", "5 bytes", "from ann at 2026-01-02T15:04:05Z", "not a picture")
	}
}

// TestOwnPicturesComeFirst: a question beside a picture is about that picture, unless it points elsewhere.
func TestOwnPicturesComeFirst(t *testing.T) {
	w := newWorld(t, reader(t))
	w.postText("old.png", "OLD WORDS")
	two := func() []*posted {
		return []*posted{w.postText("left.png", "LEFT HAND"), w.postText("right.png", "RIGHT HAND")}
	}

	a := w.say("what is this?", w.postText("new.png", "NEW WORDS"))
	contains(t, a, "NEW WORDS")
	lacks(t, a, "OLD WORDS")
	if len(w.calls) != 0 {
		t.Errorf("calls %q", w.called())
	}
	a = w.say("compare with the picture before", w.postText("newer.png", "NEWER WORDS"))
	contains(t, a, "NEW WORDS")
	lacks(t, a, "NEWER", "OLD")

	a = w.say("no, look at old.png", w.postText("other.png", "OTHER WORDS"))
	contains(t, a, "OLD WORDS")
	lacks(t, a, "OTHER")

	a = w.say("read the second picture", two()...)
	contains(t, a, "RIGHT HAND")
	lacks(t, a, "LEFT")
	a = w.say("read left.png", two()...)
	contains(t, a, "LEFT HAND")
	lacks(t, a, "RIGHT")
	a = w.say("", two()...)
	contains(t, a, "LEFT HAND", "RIGHT HAND")
}

func TestNotShownIsSaid(t *testing.T) {
	w := newWorld(t, reader(t))
	w.postText("good.png", "GOOD WORDS")
	bad := w.post("bad.png", "image/png", []byte("junk"))
	bad.reason = "its data is truncated"
	a := w.say("what does it say?", bad)
	contains(t, a, "bad.png", "was not shown to me", "Its data is truncated.")
	lacks(t, a, "GOOD")

	// Asked for by ID, refused by the tool: nothing of the picture that is still shown may answer for it.
	other := w.postText("shown.png", "SHOWN WORDS")
	a = w.say("what does "+string(bad.id)+" say?", other)
	contains(t, a, "bad.png", "was not shown to me", "Its data is truncated.")
	lacks(t, a, "SHOWN", "GOOD")
	if w.called() != "view_images bad.png" {
		t.Errorf("calls %q", w.called())
	}
	unknown := "att_" + strings.Repeat("0", 26)
	a = w.say("what does " + unknown + " say?")
	contains(t, a, unknown, "was not shown to me", "No such attachment is available here.")

	html := w.post("Image_1.png", "text/html", []byte("<!doctype html>"))
	html.reason = "not a picture"
	a = w.say("read this", html)
	contains(t, a, "Nothing of what is attached was shown to me as a picture", "Image_1.png")
}

func TestRegions(t *testing.T) {
	w := newWorld(t, reader(t))
	p := w.postText("page.png", "UPPER LINE\nLOWER LINE")
	w.say("here", p)
	for _, ask := range []string{
		"region 0,0,200,54 of " + string(p.id),
		"zoom into 0 0 200 54 of page.png",
		"zoom in on the first picture at 0,0,200,54",
		"show me the area 0, 0, 200 x 54",
	} {
		a := w.say(ask)
		last := w.calls[len(w.calls)-1]
		if want := `{"regions":[{"id":"` + string(p.id) + `","x":0,"y":0,"width":200,"height":54}]}`; last.Name != viewImages || last.Arguments != want {
			t.Errorf("%q: %s %s", ask, last.Name, last.Arguments)
		}
		contains(t, a, "UPPER LINE", "region 0,0,200,54", "200x54")
		lacks(t, a, "LOWER")
	}
	contains(t, w.say("zoom into the picture"), "region x,y,width,height", "LOWER LINE")
	contains(t, w.say("region 0,0,0,5 of "+string(p.id)), "That region is empty.")
}

func TestNoToolsNoCalls(t *testing.T) {
	w := newWorld(t, blind())
	w.noTools = true
	p := w.postText("a.png", "A")
	contains(t, w.say("read the first picture"), "is not available to me")
	contains(t, w.say("list the files"), "can't list files")
	contains(t, w.say("look at "+string(p.id)), "can't look at")
	contains(t, w.say("what is it?", p), "a.png", "PNG")
}

func TestHonestAboutItself(t *testing.T) {
	w := newWorld(t, blind())
	a := w.say("Hi! How are you today?")
	contains(t, a, introduction, "I can't chat or reason", "tesseract is not installed", "apt install tesseract-ocr")
	if len(w.calls) != 0 {
		t.Errorf("calls %q", w.called())
	}
	lacks(t, w.say("Tell me a joke"), introduction)
}

func TestToolErrorIsTold(t *testing.T) {
	r := agent.ModelRequest{
		Tools: []agent.ToolSpec{{Name: listDocuments}, {Name: viewImages}},
		Messages: []agent.Message{
			{Role: agent.RoleUser, Text: "read the first picture"},
			{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "c", Name: listDocuments, Arguments: "{}"}}},
			{Role: agent.RoleTool, CallID: "c", Text: `{"error":"the list is closed"}`},
		},
	}
	res, err := blind().Generate(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, res.Message.Text, "the list is closed")
	r.Messages[2].Text = "not json"
	if res, err = blind().Generate(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	contains(t, res.Message.Text, "can't be read")
}

// TestEndlessPages: a tool that never ends its pages ends the turn anyway.
func TestEndlessPages(t *testing.T) {
	r := agent.ModelRequest{Tools: []agent.ToolSpec{{Name: listDocuments}}, Messages: []agent.Message{{Role: agent.RoleUser, Text: "read the first picture"}}}
	for range 100 {
		res, err := blind().Generate(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.Message.Text != "" {
			contains(t, res.Message.Text, "too many steps")
			return
		}
		r.Messages = append(r.Messages, res.Message, agent.Message{Role: agent.RoleTool, CallID: res.Message.Calls[0].ID, Text: `{"documents":[],"total":9,"next":7}`})
	}
	t.Error("it pages forever")
}

// TestSteering: a message that arrives in the middle of a turn replaces the request, not the files.
func TestSteering(t *testing.T) {
	w := newWorld(t, blind())
	p := w.postText("a.png", "A")
	q := w.postText("b.png", "B")
	r := agent.ModelRequest{
		Tools: []agent.ToolSpec{{Name: listDocuments}, {Name: viewImages}},
		Messages: []agent.Message{
			{Role: agent.RoleUser, Text: "look at " + string(p.id)},
			{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "c", Name: viewImages, Arguments: `{"ids":["` + string(p.id) + `"]}`}}},
			{Role: agent.RoleTool, CallID: "c", Text: `{"selected":[{"id":"` + string(p.id) + `"}],"note":""}`},
			{Role: agent.RoleUser, Text: "no, at " + string(q.id)},
		},
	}
	res, err := blind().Generate(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Message.Calls) != 1 || !strings.Contains(res.Message.Calls[0].Arguments, string(q.id)) {
		t.Errorf("got %+v", res.Message)
	}
}
