package e2e

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"sightline/tests/fakemodel"
)

// A conversation that is too long to be retold is compacted: the picture of
// its first turn is named in the notes by its ID and as not loaded, and is
// looked at again, pixel by pixel.
func TestCompacted(t *testing.T) {
	var notes atomic.Int32
	m, env := fake(t, nil)
	p := start(t, home(t), env...)
	var id atomic.Value
	answer := func(r fakemodel.Request) fakemodel.Reply {
		if len(r.Tools) == 0 { // a compaction
			notes.Add(1)
			return fakemodel.Reply{Text: fmt.Sprintf("ann posted a picture of noise, %s", id.Load())}
		}
		return fakemodel.Reply{Text: "fine"}
	}
	m.Answer(answer)
	shot, pix := noise(t, 70, 60, 77)
	ask(t, p.Client, "c", "look at this", file{"shot.png", shot})
	id.Store(attachmentID(m.Requests()[0], "shot.png"))
	for i := range 24 {
		ask(t, p.Client, "c", fmt.Sprintf("small talk %d", i))
	}
	wait(t, "the compaction", func() bool { return notes.Load() > 0 })
	// One message more: with many of them the next compaction would be due.
	wait(t, "the notes to be kept", func() bool { return query(t, p, `SELECT count(*)::text FROM summary`) != "0" })
	ask(t, p.Client, "c", "more small talk")
	if r := m.Requests(); !strings.Contains(r[len(r)-1].System, "ann posted a picture of noise") {
		t.Errorf("a prompt without the notes: %s", r[len(r)-1].System)
	}
	before := len(m.Requests())
	m.Answer(steps(calls("view_images", fmt.Sprintf(`{"ids":[%q]}`, id.Load())), says("seen again")))
	if a := ask(t, p.Client, "c", "what was on the very first picture?"); a.Text != "seen again" {
		t.Fatalf("%+v", a)
	}
	r := m.Requests()[before:]
	if s := r[0].System; !strings.Contains(s, "EARLIER IN THIS CONVERSATION") || !strings.Contains(s, "not loaded") || !strings.Contains(s, id.Load().(string)) || len(r[0].Pictures) != 0 {
		t.Errorf("the prompt after the compaction has %d pictures and says %s", len(r[0].Pictures), s)
	}
	for _, msg := range r[0].Messages {
		if strings.Contains(msg.Text, "small talk 0") || strings.Contains(msg.Text, "shot.png") {
			t.Errorf("what was compacted is retold, too: %s", msg.Text)
		}
	}
	if last := r[len(r)-1]; len(last.Pictures) != 1 || !samePixels(last.Pictures[0].Image, pix) {
		t.Errorf("looked at again: %d pictures, %s", len(last.Pictures), last.Last("tool"))
	}
}
