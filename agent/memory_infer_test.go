package agent_test

import (
	"context"
	"testing"
	"time"

	"sightline/agent"
	"sightline/agent/agenttest"
	"sightline/connectors/chat"
)

// held is a model that answers when it is let go.
type held struct {
	agent.Model
	asked chan agent.ModelRequest
	let   chan struct{}
}

func (m held) Generate(ctx context.Context, r agent.ModelRequest, _ func(string)) (agent.ModelResponse, error) {
	m.asked <- r
	select {
	case <-m.let:
		return agent.ModelResponse{Message: agent.Message{Role: agent.RoleAssistant, Text: "yes"}}, nil
	case <-ctx.Done():
		return agent.ModelResponse{}, ctx.Err()
	}
}

// Pictures are held until the model has answered, within what there is for all
// of them: the next inference with one waits, and one without does not.
func TestInferencesShareMemory(t *testing.T) {
	w := agenttest.New(t)
	w.Looker.Memory = agent.NewMemory(w.Auth.Largest())
	pic := w.Post("a.png", "image/png", agenttest.PNG(t, 64, 48, 7))
	m := held{agenttest.Seeing("yes"), make(chan agent.ModelRequest, 4), make(chan struct{})}
	inf := inference(t, w, m)
	ended := make(chan error, 4)
	ask := func(ctx context.Context, files ...chat.Attachment) {
		go func() {
			var tr trail
			_, _, err := inf.Infer(ctx, brief(w, files...), tr.audit, nil)
			ended <- err
		}()
	}
	pictures := func() int {
		select {
		case r := <-m.asked:
			return len(r.Pictures)
		case <-time.After(10 * time.Second):
			t.Fatal("the model is not asked")
			return 0
		}
	}
	ask(t.Context(), pic)
	if pictures() != 1 {
		t.Fatal("the first has no picture")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ask(ctx, pic)
	select {
	case <-m.asked:
		t.Fatal("the second picture did not wait for the first")
	case <-time.After(50 * time.Millisecond):
	}
	ask(t.Context())
	if pictures() != 0 {
		t.Fatal("what needs no memory waited")
	}
	cancel() // a stop ends the wait
	if err := <-ended; err == nil {
		t.Fatal("the one that waits was answered")
	}
	ask(t.Context(), pic)
	close(m.let)
	if pictures() != 1 {
		t.Fatal("nothing was given back")
	}
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
