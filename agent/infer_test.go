package agent_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sightline/agent"
	"sightline/agent/agenttest"
	"sightline/agent/tools"
	"sightline/attachments"
	"sightline/attachments/visual"
	"sightline/connectors/chat"
)

func inference(t *testing.T, w *agenttest.World, m agent.Model) *agent.Inference {
	t.Helper()
	r, err := agent.NewRegistry(&tools.ListDocuments{Authorizer: w.Auth}, &tools.ViewImages{Looker: w.Looker})
	if err != nil {
		t.Fatal(err)
	}
	return &agent.Inference{Model: m, Tools: r, Looker: w.Looker, MaxShown: 4}
}

func brief(w *agenttest.World, files ...chat.Attachment) agent.Brief {
	b := agent.Brief{
		Request: w.Request, Profile: agent.Profile{Name: "Sightline", Place: w.At}, Now: time.Unix(1e9, 0),
		Files: files, Transcript: []agent.Message{{Role: agent.RoleUser, Text: "ann: what is this?"}},
	}
	for _, f := range files {
		if agent.Viewable(f) {
			b.Wanted = append(b.Wanted, agent.Wanted{Attachment: f.ID})
		}
	}
	return b
}

type trail struct {
	audits   []agent.Audited
	outcomes []error
}

func (tr *trail) audit(_ context.Context, a agent.Audited) (func(agent.ModelResponse, error) error, error) {
	tr.audits = append(tr.audits, a)
	return func(_ agent.ModelResponse, err error) error { tr.outcomes = append(tr.outcomes, err); return nil }, nil
}

// Law 10: the prompt names exactly the pictures shown and those not shown,
// each with its reason; the audit body holds no run of the picture.
func TestPromptNamesWhatIsShownAndWhatIsNot(t *testing.T) {
	w := agenttest.New(t)
	pic := agenttest.PNG(t, 64, 48, 7)
	good := w.Post("shot.png", "image/png", pic)
	broken := w.Post("broken.png", "image/png", pic[:len(pic)/2])
	svg := w.Post("draw.svg", "image/svg+xml", []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`))
	deleted := w.Post("gone.png", "image/png", pic)
	m := agenttest.Seeing("a picture")
	var tr trail
	b := brief(w, good, broken, svg, deleted)
	w.Decide = func(q attachments.Question) (attachments.Decision, error) {
		if q.Message == deleted.Message {
			return attachments.Refuse("gone", "message is gone"), nil
		}
		return attachments.Allow("S1", 0, 0), nil
	}
	resp, sel, err := inference(t, w, m).Infer(context.Background(), b, tr.audit, nil)
	if err != nil || resp.Message.Text != "a picture" {
		t.Fatalf("%+v, %v", resp, err)
	}
	r := m.Requests[0]
	if len(r.Pictures) != 1 || r.Pictures[0].ID != good.ID || !bytes.Equal(r.Pictures[0].Picture.Bytes, pic) {
		t.Fatalf("pictures %v", r.Pictures)
	}
	shown, hidden, _ := strings.Cut(r.Instructions, "Not shown, with the reason")
	for _, want := range []string{string(good.ID), "shot.png", "64x48"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the shown part lacks %q:\n%s", want, shown)
		}
	}
	for _, want := range []string{string(broken.ID), "incomplete", string(svg.ID), "into a workspace", string(deleted.ID), attachments.ErrNotAvailable.Error()} {
		if !strings.Contains(hidden, want) {
			t.Errorf("the hidden part lacks %q:\n%s", want, hidden)
		}
	}
	if len(sel) != 4 || sel[0].Reason != "" || sel[1].Reason == "" || sel[2].Reason == "" || sel[3].Reason == "" {
		t.Errorf("selected %+v", sel)
	}
	body := string(tr.audits[0].Body)
	if strings.Contains(body, string(pic[8:32])) || strings.Contains(body, base64.StdEncoding.EncodeToString(pic)[8:40]) {
		t.Error("the audit body holds the picture")
	}
	if !strings.Contains(body, sel[0].Digest) || !strings.Contains(body, "ann: what is this?") {
		t.Errorf("audit body %s", body)
	}
}

func TestTruncatedPictureIsQuarantinedByDigestAndNotDecodedAgain(t *testing.T) {
	w := agenttest.New(t)
	pic := agenttest.PNG(t, 64, 48, 7)
	a := w.Post("a.png", "image/png", pic[:len(pic)/2])
	again := w.Post("same bytes.png", "image/png", pic[:len(pic)/2])
	inf := inference(t, w, agenttest.Seeing("ok"))
	var tr trail
	for _, f := range []chat.Attachment{a, again} {
		_, sel, err := inf.Infer(context.Background(), brief(w, f), tr.audit, nil)
		if err != nil || !strings.Contains(sel[0].Reason, "incomplete") {
			t.Fatalf("%+v, %v", sel, err)
		}
	}
	digest := w.Row(a.ID).Digest
	if r, _ := w.Reason(context.Background(), digest, "any"); r == "" {
		t.Error("not quarantined")
	}
	if agent.Guidance(w.Row(a.ID)) == "look at it with view_images" {
		t.Error("the inventory still offers an unreadable picture")
	}
}

func TestChangedContentIsSaid(t *testing.T) {
	w := agenttest.New(t)
	a := w.Post("a.png", "image/png", agenttest.PNG(t, 10, 10, 1))
	m := agenttest.Seeing("ok")
	inf := inference(t, w, m)
	var tr trail
	if _, _, err := inf.Infer(context.Background(), brief(w, a), tr.audit, nil); err != nil {
		t.Fatal(err)
	}
	w.Replace(a, agenttest.PNG(t, 10, 10, 2))
	if _, _, err := inf.Infer(context.Background(), brief(w, w.Row(a.ID)), tr.audit, nil); err != nil {
		t.Fatal(err)
	}
	const said = "content changed"
	if strings.Contains(m.Requests[0].Instructions, said) || !strings.Contains(m.Requests[1].Instructions, said) || !strings.Contains(m.Requests[1].Pictures[0].Label, said) {
		t.Errorf("first: %s\nsecond: %s", m.Requests[0].Instructions, m.Requests[1].Instructions)
	}
}

func TestEveryInferenceFetchesAnew(t *testing.T) {
	w := agenttest.New(t)
	pic := agenttest.PNG(t, 10, 10, 1)
	a := w.Post("a.png", "image/png", pic)
	inf := inference(t, w, agenttest.Seeing("ok"))
	var tr trail
	for i := 1; i <= 3; i++ {
		if _, _, err := inf.Infer(context.Background(), brief(w, a), tr.audit, nil); err != nil {
			t.Fatal(err)
		}
		if w.Fetched() != int64(i*len(pic)) {
			t.Fatalf("after %d inferences: %d bytes fetched", i, w.Fetched())
		}
	}
	w.Decide = func(attachments.Question) (attachments.Decision, error) { return attachments.Refuse("x", "x"), nil }
	if _, sel, err := inf.Infer(context.Background(), brief(w, a), tr.audit, nil); err != nil || sel[0].Reason == "" || w.Fetched() != int64(3*len(pic)) {
		t.Errorf("after the audience changed: %+v, %v, %d bytes", sel, err, w.Fetched())
	}
}

func TestUnreachablePlatformIsSaidAndNothingInvented(t *testing.T) {
	w := agenttest.New(t)
	a := w.Post("a.png", "image/png", agenttest.PNG(t, 10, 10, 1))
	w.FetchErr = fmt.Errorf("read file: %w", attachments.ErrUnreachable)
	m := agenttest.Seeing("ok")
	var tr trail
	if _, _, err := inference(t, w, m).Infer(context.Background(), brief(w, a), tr.audit, nil); err != nil {
		t.Fatal(err)
	}
	if r := m.Requests[0]; len(r.Pictures) != 0 || !strings.Contains(r.Instructions, "could not be fetched") || !strings.Contains(r.Instructions, "None is shown") {
		t.Errorf("%v\n%s", r.Pictures, r.Instructions)
	}
}

func TestTextOnlyModelGetsNoToolNoPictureAndTheReason(t *testing.T) {
	for _, v := range []agent.Vision{agent.VisionNo, agent.VisionUnknown} {
		w := agenttest.New(t)
		a := w.Post("a.png", "image/png", agenttest.PNG(t, 10, 10, 1))
		m := agenttest.Seeing("ok")
		m.Known.Capability.Vision = v
		var tr trail
		if _, _, err := inference(t, w, m).Infer(context.Background(), brief(w, a), tr.audit, nil); err != nil {
			t.Fatal(err)
		}
		r := m.Requests[0]
		if len(r.Tools) != 1 || r.Tools[0].Name != "list_documents" || len(r.Pictures) != 0 || w.Fetched() != 0 {
			t.Errorf("%v: tools %v, %d pictures, %d bytes", v, r.Tools, len(r.Pictures), w.Fetched())
		}
		if !strings.Contains(r.Instructions, "can be listed but not looked at, because") {
			t.Errorf("%v: %s", v, r.Instructions)
		}
	}
}

func TestRejectedPictureIsQuarantinedForThatModelAndTheAnswerComes(t *testing.T) {
	w := agenttest.New(t)
	a := w.Post("a.png", "image/png", agenttest.PNG(t, 10, 10, 1))
	b := w.Post("b.png", "image/png", agenttest.PNG(t, 10, 10, 2))
	m := agenttest.Seeing("ok")
	reject := func(at int) func(agent.ModelRequest) (agent.ModelResponse, error) {
		return func(agent.ModelRequest) (agent.ModelResponse, error) {
			return agent.ModelResponse{}, &agent.ModelError{Kind: agent.ErrBadPicture, Permanent: true, Picture: at}
		}
	}
	ok := m.Script[0]
	m.Script = []func(agent.ModelRequest) (agent.ModelResponse, error){reject(1), ok}
	inf := inference(t, w, m)
	var tr trail
	_, sel, err := inf.Infer(context.Background(), brief(w, a, b), tr.audit, nil)
	if err != nil || sel[0].Reason != "" || sel[1].Reason == "" {
		t.Fatalf("%+v, %v", sel, err)
	}
	if len(tr.outcomes) != 2 || tr.outcomes[0] == nil || tr.outcomes[1] != nil {
		t.Errorf("outcomes %v", tr.outcomes)
	}
	if len(m.Requests[1].Pictures) != 1 || m.Requests[1].Pictures[0].ID != a.ID || !strings.Contains(m.Requests[1].Instructions, "rejected this picture") {
		t.Errorf("second request: %v\n%s", m.Requests[1].Pictures, m.Requests[1].Instructions)
	}
	// Later requests never hold it, and another model's do.
	if _, sel, _ = inf.Infer(context.Background(), brief(w, a, b), tr.audit, nil); sel[1].Reason == "" {
		t.Error("the rejected picture was sent again")
	}
	m.Known.Key = "another model"
	if _, sel, _ = inf.Infer(context.Background(), brief(w, a, b), tr.audit, nil); sel[1].Reason != "" {
		t.Errorf("another model is kept from it: %s", sel[1].Reason)
	}

	// A provider that does not say which one condemns none.
	w = agenttest.New(t)
	a, b = w.Post("a.png", "image/png", agenttest.PNG(t, 10, 10, 1)), w.Post("b.png", "image/png", agenttest.PNG(t, 10, 10, 2))
	m = agenttest.Seeing("ok")
	m.Script = append([]func(agent.ModelRequest) (agent.ModelResponse, error){reject(-1)}, m.Script...)
	inf = inference(t, w, m)
	_, sel, err = inf.Infer(context.Background(), brief(w, a, b), tr.audit, nil)
	if err != nil || !strings.Contains(sel[0].Reason, "without saying which") || !strings.Contains(sel[1].Reason, "without saying which") {
		t.Fatalf("%+v, %v", sel, err)
	}
	if _, sel, _ = inf.Infer(context.Background(), brief(w, a), tr.audit, nil); sel[0].Reason != "" {
		t.Errorf("alone it is kept out: %s", sel[0].Reason)
	}
}

func TestRequestStaysWithinTheModelsLimits(t *testing.T) {
	w := agenttest.New(t)
	var files []chat.Attachment
	for i := range 6 {
		files = append(files, w.Post(fmt.Sprintf("%d.png", i), "image/png", agenttest.PNG(t, 40, 40, uint8(i))))
	}
	one := int64(len(agenttest.PNG(t, 40, 40, 0)))
	for _, c := range []struct {
		lim   agent.Limits
		shown int
		why   string
	}{
		{agent.Limits{}, 4, "at most 4 pictures"},
		{agent.Limits{MaxPictures: 2}, 2, "at most 2 pictures"},
		{agent.Limits{MaxBytes: one*3 + one/2}, 3, "together larger than the model takes"},
	} {
		m := agenttest.Seeing("ok")
		m.Known.Limits = c.lim
		var tr trail
		if _, _, err := inference(t, w, m).Infer(context.Background(), brief(w, files...), tr.audit, nil); err != nil {
			t.Fatal(err)
		}
		if r := m.Requests[0]; len(r.Pictures) != c.shown || !strings.Contains(r.Instructions, c.why) {
			t.Errorf("%+v: %d shown\n%s", c.lim, len(r.Pictures), r.Instructions)
		}
	}
}

// Twenty-one pictures, the last one long: what is over the count is named with
// its id and the reason, and one that is looked at fits the model's edge.
func TestManyPictures(t *testing.T) {
	w := agenttest.New(t)
	var files []chat.Attachment
	for i := range 20 {
		files = append(files, w.Post(fmt.Sprintf("%d.png", i), "image/png", agenttest.PNG(t, 8, 8, uint8(i))))
	}
	last := w.Post("long.png", "image/png", agenttest.PNG(t, 2162, 322, 99))
	m := agenttest.Seeing("ok")
	m.Known.Limits = agent.Limits{MaxEdge: 8000, ManyPictures: 20, ManyMaxEdge: 2000}
	inf := inference(t, w, m)
	var tr trail
	if _, _, err := inf.Infer(context.Background(), brief(w, append(files, last)...), tr.audit, nil); err != nil {
		t.Fatal(err)
	}
	r := m.Requests[0]
	_, hidden, _ := strings.Cut(r.Instructions, "Not shown")
	if len(r.Pictures) != 4 || strings.Count(hidden, "at most 4 pictures") != 17 || !strings.Contains(hidden, string(last.ID)) {
		t.Errorf("%d shown\n%s", len(r.Pictures), r.Instructions)
	}
	inf.MaxShown = 21
	if _, _, err := inf.Infer(context.Background(), brief(w, append(files, last)...), tr.audit, nil); err != nil {
		t.Fatal(err)
	}
	r = m.Requests[1]
	if p := r.Pictures[len(r.Pictures)-1]; len(r.Pictures) != 21 || p.Picture.Width != 2000 || !strings.Contains(p.Label, "2162x322") || !strings.Contains(p.Label, "scaled") {
		t.Errorf("%d shown, the last as %v: %s", len(r.Pictures), p.Picture, p.Label)
	}
}

// Eight pictures of 4 MB each: the bytes of a request hold, whatever its
// count admits.
func TestByteBudget(t *testing.T) {
	w := agenttest.New(t)
	var files []chat.Attachment
	for i := range 8 {
		files = append(files, w.Post(fmt.Sprintf("%d.png", i), "image/png", noise(t, 1150, 1150, uint32(i+1))))
	}
	m := agenttest.Seeing("ok")
	m.Known.Limits = agent.Limits{MaxBytes: 18 << 20}
	inf := inference(t, w, m)
	inf.MaxShown = 8
	var tr trail
	if _, _, err := inf.Infer(context.Background(), brief(w, files...), tr.audit, nil); err != nil {
		t.Fatal(err)
	}
	var sum int
	for _, p := range m.Requests[0].Pictures {
		sum += len(p.Picture.Bytes)
	}
	if n := len(m.Requests[0].Pictures); n != 4 || sum > 18<<20 || strings.Count(m.Requests[0].Instructions, "together larger") != 4 {
		t.Errorf("%d shown, %d bytes\n%s", n, sum, m.Requests[0].Instructions)
	}
}

// A tall page with small text: the region comes at native resolution.
func TestRegionAtNativeResolution(t *testing.T) {
	w := agenttest.New(t)
	a := w.Post("tall.png", "image/png", agenttest.PNG(t, 300, 3000, 3))
	m := agenttest.Seeing("ok")
	m.Known.Limits.MaxEdge = 500
	b := brief(w, a)
	b.Wanted = []agent.Wanted{{Attachment: a.ID, Region: &visual.Region{X: 10, Y: 2000, Width: 200, Height: 100}}}
	var tr trail
	_, sel, err := inference(t, w, m).Infer(context.Background(), b, tr.audit, nil)
	if err != nil || len(m.Requests[0].Pictures) != 1 {
		t.Fatalf("%+v, %v", sel, err)
	}
	if p := m.Requests[0].Pictures[0].Picture; p.Width != 200 || p.Height != 100 {
		t.Errorf("region came as %dx%d", p.Width, p.Height)
	}
	b.Wanted[0].Region.Y = 2950
	if _, sel, _ = inference(t, w, m).Infer(context.Background(), b, tr.audit, nil); !strings.Contains(sel[0].Reason, "300x3000") {
		t.Errorf("outside: %+v", sel)
	}
}

func TestAnUnauditedRequestIsNotMade(t *testing.T) {
	w := agenttest.New(t)
	m := agenttest.Seeing("ok")
	_, _, err := inference(t, w, m).Infer(context.Background(), brief(w), func(context.Context, agent.Audited) (func(agent.ModelResponse, error) error, error) {
		return nil, errors.New("disk full")
	}, nil)
	if err == nil || len(m.Requests) != 0 {
		t.Errorf("%v, %d requests", err, len(m.Requests))
	}
}
