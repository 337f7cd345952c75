package workflows

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"sightline/agent"
)

// A request that is too long for the model is made with less of the past, and
// says so; one that can't be made shorter fails.
func TestRequestsAreMadeToFit(t *testing.T) {
	k := newTalk(t, 12)
	fits := 3 // retold turns
	script := func(r agent.ModelRequest) (agent.ModelResponse, error) {
		if n := strings.Count(string(must(json.Marshal(r.Messages))), "answer "); n > fits {
			return agent.ModelResponse{}, &agent.ModelError{Kind: agent.ErrTooLong, Permanent: true, Picture: -1}
		}
		return agent.ModelResponse{Message: agent.Message{Role: agent.RoleAssistant, Text: "fits"}}, nil
	}
	k.model.Script = []func(agent.ModelRequest) (agent.ModelResponse, error){script}
	ask := func() (agent.ModelResponse, error) {
		l, err := k.load(t.Context(), k.now)
		k.ok(err)
		in := InferInput{Turn: k.now, Seq: 1, Step: 1}
		b, err := k.brief(t.Context(), l, in)
		k.ok(err)
		b.Wanted = nil
		resp, _, err := k.fitting(t.Context(), l, b, in, nil)
		return resp, err
	}
	if resp, err := ask(); err != nil || resp.Message.Text != "fits" {
		t.Fatalf("%+v, %v", resp, err)
	}
	r := k.model.Requests
	if len(r) != 3 || !strings.Contains(r[2].Instructions, "9 earlier exchanges of this conversation are not retold") || !strings.Contains(string(must(json.Marshal(r[2].Messages))), "answer 11") {
		t.Errorf("%d requests, the last says %s", len(r), r[len(r)-1].Instructions)
	}
	fits = -1
	var me *agent.ModelError
	if _, err := ask(); !errors.As(err, &me) || me.Kind != agent.ErrTooLong {
		t.Errorf("never fits: %v", err)
	}
}
