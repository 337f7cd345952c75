package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"sightline/agent"
	"sightline/agent/offline"
	"sightline/agent/openai"
	"sightline/agent/tools"
	"sightline/attachments"
	"sightline/attachments/visual"
	"sightline/checkpoints"
	"sightline/connectors/chat"
	"sightline/connectors/web"
	"sightline/workflows"
)

const maxShown = 4 // pictures in one request

var (
	_ attachments.Inventory  = (*checkpoints.DB)(nil)
	_ attachments.Source     = (*web.Place)(nil)
	_ attachments.Visibility = (*web.Place)(nil)
	_ workflows.Replier      = (*web.Place)(nil)
	_ web.Sink               = (*workflows.Ingress)(nil)
)

// knownModel is what the wiring needs of a model.
type knownModel = agent.Model

// model is the configured one, or the offline one where there is none.
func (s *service) model(ctx context.Context) (agent.Model, error) {
	if s.c.Offline() {
		return offline.New(offline.Config{Log: s.log}), nil
	}
	m, err := openai.New(openai.Config{
		APIKey: s.c.APIKey, BaseURL: s.c.BaseURL, Model: s.c.Model, API: s.c.ModelAPI, Vision: s.c.Vision, Log: s.log,
	})
	if err != nil {
		return nil, err
	}
	m.Probe(ctx)
	s.keepProbing(m)
	return m, nil
}

// keepProbing looks the model up again: a server that starts after us, or
// loads another model, would otherwise stay what it was.
func (s *service) keepProbing(m *openai.Model) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	s.later(func(context.Context) { cancel(); <-done })
	go func() {
		defer close(done)
		for {
			wait := 15 * time.Minute
			if m.Info(ctx).Capability.Vision == agent.VisionUnknown {
				wait = time.Minute
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
				m.Probe(ctx)
			}
		}
	}()
}

// describe is the model in one line, for the one who starts it.
func describe(i agent.ModelInfo) string {
	if i.Offline {
		return i.Name + " (no key: set OPENAI_API_KEY, or OPENAI_BASE_URL and SIGHTLINE_MODEL, for a language model)"
	}
	s := fmt.Sprintf("%s, sees pictures: %s", i.Name, i.Capability.Vision)
	if i.Capability.Source != "" {
		s += " (" + i.Capability.Source + ")"
	}
	if i.Capability.Vision == agent.VisionUnknown {
		s += "; set SIGHTLINE_MODEL_VISION to yes or no"
	}
	return s
}

// web makes the web place. A process without the web role still has it, since
// its workers fetch from it and post to it.
func (s *service) web(db *checkpoints.DB, tc client.Client, l net.Listener, r Running, modelName string) (*web.Place, error) {
	c := web.Config{
		Agent: DefaultAgent, Pool: db.Pool(), Dir: s.c.Home, Turns: turns{db}, MaxBytes: s.c.Images.MaxBytes,
		Model: modelName, TemporalUI: r.TemporalUI, Log: s.log,
	}
	if l != nil {
		c.Listener, c.Home = l, s.c.Home
		c.Sink = &workflows.Ingress{DB: db, Client: tc, At: s.o.At}
	}
	return web.New(c)
}

// turns answers the web place's question from the checkpoints.
type turns struct{ db *checkpoints.DB }

func (t turns) TurnFor(ctx context.Context, _ chat.ConversationID, m chat.MessageID) (web.TurnView, bool, error) {
	turn, err := t.db.TurnOfMessage(ctx, m)
	if errors.Is(err, checkpoints.ErrNotFound) {
		return web.TurnView{}, false, nil
	}
	if err != nil {
		return web.TurnView{}, false, err
	}
	return web.TurnView{Turn: turn.ID, State: string(turn.State)}, true, nil
}

// agents joins the one agent of this configuration with its connectors.
func (s *service) agents(db *checkpoints.DB, m agent.Model, p *web.Place) (*workflows.Activities, error) {
	limits := s.c.Images
	auth, err := attachments.New(attachments.Config{
		Inventory:  db,
		Visibility: map[chat.Platform]attachments.Visibility{web.Platform: p},
		Sources:    map[chat.AgentID]map[chat.Platform]attachments.Source{DefaultAgent: {web.Platform: p}},
		MaxBytes:   limits.MaxBytes,
	})
	if err != nil {
		return nil, err
	}
	looker := &agent.Looker{Authorizer: auth, Decoder: visual.NewDecoder(limits), Quarantines: quarantines{db}, At: s.o.At}
	registry, err := agent.NewRegistry(&tools.ListDocuments{Authorizer: auth}, &tools.ViewImages{Looker: looker})
	if err != nil {
		return nil, err
	}
	return &workflows.Activities{
		DB: db, Log: s.log, At: s.o.At,
		Agents: map[chat.AgentID]*workflows.Agent{DefaultAgent: {
			ID: DefaultAgent, Name: "Sightline", Authorizer: auth,
			Inference: &agent.Inference{Model: m, Tools: registry, Looker: looker, MaxShown: maxShown},
			Repliers:  map[chat.Platform]workflows.Replier{web.Platform: p},
		}},
	}, nil
}

// quarantines adapts the store's rows to the one question asked of them.
type quarantines struct{ db *checkpoints.DB }

func (q quarantines) Reason(ctx context.Context, digest, model string) (string, error) {
	m, err := q.db.Quarantined(ctx, []string{digest}, model)
	if err != nil {
		return "", err
	}
	return m[digest].Reason, nil
}

func (q quarantines) Put(ctx context.Context, digest, model, reason string) error {
	return q.db.PutQuarantine(ctx, checkpoints.Quarantine{Digest: digest, Model: model, Reason: reason, At: time.Now()})
}

func namespace(env func(string) string) string {
	if n := env("TEMPORAL_NAMESPACE"); n != "" {
		return n
	}
	return "default"
}

// lookup lets the SDK's own loader read the given environment.
type lookup func(string) string

func (l lookup) LookupEnv(k string) (string, bool) { v := l(k); return v, v != "" }
func (l lookup) Environ() []string                 { return nil }

func temporalOptions(env func(string) string) (client.Options, error) {
	o, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{EnvLookup: lookup(env)})
	if err != nil {
		return o, fmt.Errorf("the TEMPORAL_ variables are not usable: %w", err)
	}
	if o.HostPort == "" {
		return o, fmt.Errorf("the TEMPORAL_ variables name no address")
	}
	return o, nil
}

// ops serves the two questions of a supervisor.
func (s *service) ops(db *checkpoints.DB, tc client.Client) error {
	l, err := net.Listen("tcp", s.c.OpsAddr)
	if err != nil {
		return fmt.Errorf("SIGHTLINE_OPS_ADDR %s can't be listened on: %w", s.c.OpsAddr, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
		defer cancel()
		state := map[string]string{"postgres": "ok", "temporal": "ok"}
		code := http.StatusOK
		if err := db.Ping(ctx); err != nil {
			state["postgres"], code = "unreachable", http.StatusServiceUnavailable
		}
		if _, err := tc.CheckHealth(ctx, nil); err != nil {
			state["temporal"], code = "unreachable", http.StatusServiceUnavailable
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(state)
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = srv.Serve(l) }()
	s.later(func(ctx context.Context) { _ = srv.Shutdown(ctx) })
	return nil
}
