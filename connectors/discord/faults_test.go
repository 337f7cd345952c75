package discord

import (
	"net/http"
	"testing"
)

// What discordgo keeps of the platform lags, is wrong about threads, and is
// written while it is read: nothing is kept. Its handlers run in order, and
// its own reconnection, which knows neither contexts nor fatal codes, is off.
func TestSessionIsAGatewayAlone(t *testing.T) {
	w := newWorld(t)
	b := w.make()
	l, err := b.newLink(t.Context(), shard{1, 3})
	if err != nil {
		t.Fatal(err)
	}
	s := l.s
	if s.StateEnabled || !s.SyncEvents || s.ShouldReconnectOnError || s.ShouldReconnectVoiceOnSessionError || s.Compress ||
		s.ShardID != 1 || s.ShardCount != 3 || s.Identify.Intents != intents {
		t.Errorf("%+v", s)
	}
	// It has one question, and no other leaves this process through it.
	for _, u := range []string{"https://discord.com/api/v9/users/@me", "https://example.com/api/v9/channels/1"} {
		if res, err := s.Client.Get(u); err == nil {
			_ = res.Body.Close()
			t.Errorf("%s was asked", u)
		}
	}
	res, err := s.Client.Get("https://discord.com/api/v9/gateway")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", res, err)
	}
	if n := len(w.Requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}
