package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sightline/attachments"
	"sightline/connectors/chat"
)

// Profile is what an agent is told about itself.
type Profile struct {
	Name         string // of the agent
	Place        chat.Place
	Instructions string // the operator's own, may be empty
}

// Exchange is one turn of the conversation as the prompt retells it.
type Exchange struct {
	Messages    []chat.Message
	Attachments []chat.Attachment
	Answer      string // empty for the current turn
}

// Brief is all that one inference is made of. Nothing in it is a picture.
type Brief struct {
	Request attachments.Request
	Profile Profile
	Now     time.Time
	History []Exchange // oldest first
	Older   int        // exchanges before History that are not retold
	// Summary stands for the Summed exchanges before History; empty: none does.
	Summary string
	Summed  int
	// Transcript is the current turn: its messages, and what model and tools
	// said since.
	Transcript []Message
	// Files are the current turn's attachments.
	Files []chat.Attachment
	// Wanted is the selection; Explicit when view_images made it.
	Wanted   []Wanted
	Explicit bool
	// Workspace: an owner enabled one for the conversation.
	Workspace bool
	// Key names the inference.
	Key string
}

// Audited is what is written down before the model is asked.
type Audited struct {
	Model    string
	Body     json.RawMessage
	Pictures []chat.Selected
}

// Auditor writes a request down before the model is asked, and what came of
// it afterwards: one pair for every request that an inference makes.
type Auditor func(ctx context.Context, a Audited) (done func(ModelResponse, error) error, err error)

// Inference makes one request to one model. Its fields are all required.
type Inference struct {
	Model    Model
	Tools    *Registry
	Looker   *Looker
	MaxShown int // pictures in one request, whatever the model takes
}

// Infer builds the request from fresh pictures, has it audited, and asks. A
// picture that the model's provider rejects is quarantined for that model and
// the request goes out again without it, saying so.
func (inf *Inference) Infer(ctx context.Context, b Brief, audit Auditor, draft func(string)) (ModelResponse, []chat.Selected, error) {
	info := inf.Model.Info(ctx)
	var rejected map[int]string // index in b.Wanted -> sentence
	for {
		resp, selected, again, err := inf.once(ctx, b, info, rejected, audit, draft)
		if err != nil || len(again) == 0 {
			return resp, selected, err
		}
		if rejected == nil {
			rejected = map[int]string{}
		}
		for i, why := range again {
			rejected[i] = why
		}
	}
}

// once makes one request. Those again are not to be in the next one, which is
// made if there are any.
func (inf *Inference) once(ctx context.Context, b Brief, info ModelInfo, rejected map[int]string, audit Auditor, draft func(string)) (resp ModelResponse, selected []chat.Selected, again map[int]string, err error) {
	var held *Held
	if n := inf.most(b, info); n > 0 {
		if held, err = inf.Looker.Memory.Hold(ctx, n); err != nil {
			return ModelResponse{}, nil, nil, err
		}
	}
	defer held.Free()
	req, views, err := inf.build(ctx, b, info, rejected)
	if err != nil {
		return ModelResponse{}, nil, nil, err
	}
	var bytes int64
	for _, p := range req.Pictures {
		bytes += int64(len(p.Picture.Bytes))
	}
	held.Keep(bytes)
	selected = make([]chat.Selected, len(views))
	for i, v := range views {
		selected[i] = v.Selected
	}
	body, err := auditBody(req, views)
	if err != nil {
		return ModelResponse{}, nil, nil, err
	}
	done, err := audit(ctx, Audited{Model: info.Key, Body: body, Pictures: selected})
	if err != nil {
		return ModelResponse{}, nil, nil, fmt.Errorf("audit request: %w", err)
	}
	resp, err = inf.Model.Generate(ctx, req, draft)
	if derr := done(resp, err); derr != nil && err == nil {
		return ModelResponse{}, nil, nil, fmt.Errorf("audit answer: %w", derr)
	}
	var me *ModelError
	if !errors.As(err, &me) || me.Kind != ErrBadPicture && me.Kind != ErrNoVision || len(req.Pictures) == 0 {
		return resp, selected, nil, err
	}
	again, err = inf.reject(ctx, me, info, views, req.Pictures)
	return ModelResponse{}, nil, again, err
}

// most is how many bytes the pictures of a request may take, with the one that
// is just being made into another.
func (inf *Inference) most(b Brief, info ModelInfo) (n int64) {
	if info.Capability.Vision != VisionYes {
		return 0
	}
	var largest int64
	for i, w := range b.Wanted {
		if i == inf.MaxShown {
			break
		}
		one := inf.Looker.Largest(w)
		largest = max(largest, one)
		n += one
	}
	if info.Limits.MaxBytes > 0 {
		n = min(n, info.Limits.MaxBytes+largest)
	}
	return n
}

// reject says which pictures the next request must do without. Each round
// hides at least one, so the rounds end.
func (inf *Inference) reject(ctx context.Context, me *ModelError, info ModelInfo, views []View, shown []ShownPicture) (map[int]string, error) {
	var at []int // index in views of each shown picture
	for i, v := range views {
		if v.Shown() {
			at = append(at, i)
		}
	}
	out := map[int]string{}
	if me.Kind == ErrNoVision {
		for _, i := range at {
			out[i] = "the model says that it can't see pictures"
		}
		return out, nil
	}
	bad := me.Picture
	if len(shown) == 1 {
		bad = 0
	}
	if bad >= 0 && bad < len(shown) {
		why := "the model's provider rejected this picture"
		if err := inf.Looker.Quarantines.Put(ctx, shown[bad].Digest, info.Key, why); err != nil {
			return nil, fmt.Errorf("quarantine rejected picture: %w", err)
		}
		out[at[bad]] = why
		return out, nil
	}
	// The provider did not say which one: none is condemned, all stay out of
	// this request, and each can be looked at alone, which settles it.
	for _, i := range at {
		out[i] = "the model's provider rejected one of the pictures without saying which; view them one at a time"
	}
	return out, nil
}

func (inf *Inference) build(ctx context.Context, b Brief, info ModelInfo, rejected map[int]string) (ModelRequest, []View, error) {
	views, err := inf.views(ctx, b, info, rejected)
	if err != nil {
		return ModelRequest{}, nil, err
	}
	req := ModelRequest{Key: b.Key, Tools: inf.Tools.Offer(Here{Actor: b.Request.Actor, Model: info, Workspace: b.Workspace})}
	for _, v := range views {
		if v.Shown() {
			req.Pictures = append(req.Pictures, ShownPicture{ID: v.Selected.Attachment, Label: label(v), Digest: quarantineKey(v.Selected), Picture: v.Picture})
		}
	}
	req.Messages = append(retell(b.History, b.Profile.Place.Kind), b.Transcript...)
	req.Instructions = instructions(b, info, req.Tools, views)
	return req, views, nil
}

// views decides about every wanted picture, in order, within the model's
// limits. What is over a limit is not fetched, and said.
func (inf *Inference) views(ctx context.Context, b Brief, info ModelInfo, rejected map[int]string) ([]View, error) {
	lim := info.Limits
	max := inf.MaxShown
	if lim.MaxPictures > 0 && lim.MaxPictures < max {
		max = lim.MaxPictures
	}
	target := lim.Target(len(b.Wanted))
	var out []View
	var bytes int64
	shown := 0
	for i, w := range b.Wanted {
		v := View{Selected: w.selected()}
		switch {
		case rejected[i] != "":
			v = v.hide(rejected[i], "rejected by the provider in this inference")
		case info.Capability.Vision != VisionYes:
			v = v.hide(blind(info), "the model's vision is "+info.Capability.Vision.String())
		case shown == max:
			v = v.hide(fmt.Sprintf("at most %d pictures are shown at once; view it by its id", max), "over the count of one request")
		default:
			var err error
			if v, err = inf.Looker.Look(ctx, b.Request, w, info, target, "show"); err != nil {
				return nil, err
			}
			if !v.Shown() {
				break
			}
			if n := int64(len(v.Picture.Bytes)); lim.MaxBytes > 0 && bytes+n > lim.MaxBytes {
				v = v.hide("the pictures of this request are together larger than the model takes; view it alone, or a region of it",
					fmt.Sprintf("over the request's %d bytes", lim.MaxBytes))
				break
			}
			bytes += int64(len(v.Picture.Bytes))
			shown++
		}
		out = append(out, v)
	}
	return out, nil
}

func blind(m ModelInfo) string {
	if m.Capability.Vision == VisionNo {
		return "this model can't see pictures"
	}
	return "it is not known whether this model sees pictures; the operator can say so with SIGHTLINE_MODEL_VISION"
}

// auditRequest is the request without a pixel: what an operator may read.
type auditRequest struct {
	Instructions string         `json:"instructions"`
	Messages     []Message      `json:"messages"`
	Tools        []string       `json:"tools"`
	Pictures     []auditPicture `json:"pictures"`
}

type auditPicture struct {
	chat.Selected
	Label string `json:"label,omitempty"`
	MIME  string `json:"sent_type,omitempty"`
	W     int    `json:"sent_width,omitempty"`
	H     int    `json:"sent_height,omitempty"`
	Bytes int    `json:"sent_bytes,omitempty"`
}

func auditBody(r ModelRequest, views []View) (json.RawMessage, error) {
	a := auditRequest{Instructions: r.Instructions, Messages: r.Messages}
	for _, t := range r.Tools {
		a.Tools = append(a.Tools, t.Name)
	}
	for _, v := range views {
		p := auditPicture{Selected: v.Selected}
		if v.Shown() {
			p.Label, p.MIME, p.W, p.H, p.Bytes = label(v), v.Picture.MIME, v.Picture.Width, v.Picture.Height, len(v.Picture.Bytes)
		}
		a.Pictures = append(a.Pictures, p)
	}
	b, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("build audit body: %w", err)
	}
	return b, nil
}
