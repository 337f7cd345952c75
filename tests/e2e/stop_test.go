package e2e

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sightline/tests/fakediscord"
	"sightline/tests/fakemodel"
)

// soon is a tenth of a second on a machine of one's own: after a stop all
// activities beat at once, and the answer carries the cancellation. What was
// waited for is checked beside it, by what never came.
const soon = 5 * time.Second

// stopped waits for the agent's last words to say so, and tells how long that
// took.
func stopped(t *testing.T, since time.Time, said func() []string) time.Duration {
	t.Helper()
	wait(t, "the end of a turn that was stopped", func() bool {
		s := said()
		return len(s) > 0 && s[len(s)-1] == "Stopped."
	})
	return time.Since(since)
}

// A stop ends a turn at once, whether its model hangs or its
// picture waits for its turn to be decoded, and the next turn works.
func TestStopEndsWhatWaits(t *testing.T) {
	s := fakediscord.New(t)
	ann := s.AddUser("ann")
	guild := s.AddGuild(ann)
	m, env := fake(t, nil)
	dir := home(t)
	passed := filepath.Join(dir, "passed")
	start(t, dir, append(env, "DISCORD_TOKEN="+s.Token, "DISCORD_API_URL="+s.URL, "SIGHTLINE_OWNERS=discord:"+ann, boundaryVar+"="+passed)...)
	say := func(channel, text string, files ...file) {
		d := fakediscord.Draft{Text: "<@" + s.Bot.ID + "> " + text}
		for _, f := range files {
			d.Files = append(d.Files, fakediscord.File{Name: f.name, Type: "image/png", Data: f.data})
		}
		s.Post(channel, ann, d)
	}
	said := func(channel string) func() []string {
		return func() (out []string) {
			for _, m := range s.Said(channel) {
				out = append(out, m.Content)
			}
			return out
		}
	}

	// The model hangs.
	m.Answer(func(fakemodel.Request) fakemodel.Reply {
		return fakemodel.Reply{Text: "late", Wait: make(chan struct{})}
	})
	hanging := s.AddChannel(guild)
	say(hanging, "take your time")
	wait(t, "the request", func() bool { return len(m.Requests()) == 1 })
	began := time.Now()
	s.Interact(hanging, ann, "stop")
	took := stopped(t, began, said(hanging))
	t.Logf("the model hangs: stopped after %v", took.Round(time.Millisecond))
	if took > soon {
		t.Errorf("a stop took %v", took)
	}

	// Pictures wait for the one that is decoded: more of them than can be
	// decoded while the stop is under way.
	const n = 8
	big := slow(t)
	before := count(passed, "show.fetched")
	var channels []string
	for i := range n {
		c := s.AddChannel(guild)
		channels = append(channels, c)
		say(c, "what is it?", file{fmt.Sprintf("big-%d.png", i), big})
	}
	wait(t, "all but one wait", func() bool { return count(passed, "show.fetched")-before == n })
	// On a slow machine some are through before the last one is fetched.
	decoded, asked := count(passed, "show.decoded"), len(m.Requests())
	began = time.Now()
	for _, c := range channels {
		s.Interact(c, ann, "stop")
	}
	var slowest time.Duration
	for _, c := range channels {
		slowest = max(slowest, stopped(t, began, said(c)))
	}
	late := count(passed, "show.decoded") - decoded
	t.Logf("%d pictures wait: all stopped after %v, %d were decoded all the same", n-decoded, slowest.Round(time.Millisecond), late)
	if slowest > soon {
		t.Errorf("a stop took %v", slowest)
	}
	if late > 2 {
		t.Errorf("%d of %d pictures were decoded for turns that were stopped", late, n-decoded)
	}
	if got := len(m.Requests()) - asked; got > late+1 {
		t.Errorf("the model was asked %d times for turns that were stopped", got)
	}

	// And the next ones work.
	m.Answer(says("works"))
	for _, c := range append(channels[:1], hanging) {
		say(c, "and now?")
		wait(t, "the answer after a stop", func() bool { return slices.Contains(said(c)(), "works") })
	}
	if f := s.Violations(); len(f) > 0 {
		t.Errorf("the platform complains: %v", f)
	}
}

// count is how often a boundary was passed.
func count(file, boundary string) int {
	b, _ := os.ReadFile(file)
	return strings.Count("\n"+string(b), "\n"+boundary+" ")
}

// slow is a picture that takes long to decode, within every bound.
func slow(t *testing.T) []byte {
	t.Helper()
	img := image.NewGray(image.Rect(0, 0, 5600, 5600))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		if v := r.Uint32() & 15; v < 3 {
			img.Pix[i] = uint8(v + 1)
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 8<<20 {
		t.Fatalf("the picture has %d bytes", b.Len())
	}
	return b.Bytes()
}
