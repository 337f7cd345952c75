package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"go.temporal.io/sdk/client"

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

const (
	maxShown = 4         // pictures in one request
	maxHeld  = 256 << 20 // bytes of fetched files at once, over all turns
)

// connector is what every place of an agent gives the rest.
type connector interface {
	attachments.Source
	attachments.Visibility
	workflows.Replier
}

var (
	_ attachments.Inventory = (*checkpoints.DB)(nil)
	_ connector             = (*web.Place)(nil)
	_ web.Sink              = (*workflows.Ingress)(nil)
)

// member is one agent with what belongs to it alone: nothing here is shared
// with another one but the process's one decoder.
type member struct {
	c          AgentConfig
	model      agent.Model
	connectors map[chat.Platform]connector
	page       *web.Place
	bots       []bot
}

// members makes the agents of this process.
func (s *service) members(ctx context.Context, db *checkpoints.DB, tc client.Client, l net.Listener, ui string) ([]*member, *commands, error) {
	var out []*member
	ingress := s.ingress(db, tc)
	sink := s.tele.Sink(ingress)
	s.keepSettled(ingress)
	owners := &commands{db: db, ingress: ingress, log: s.log}
	for _, c := range s.c.Agents {
		m := &member{c: c, connectors: map[chat.Platform]connector{}}
		var err error
		if m.model, err = s.model(ctx, c.Model); err != nil {
			return nil, nil, fmt.Errorf("agent %s: %w", c.ID, err)
		}
		if c.Web {
			if m.page, err = s.page(c, db, tc, sink, l, m.model.Info(ctx).Name, ui); err != nil {
				return nil, nil, err
			}
			m.connectors[web.Platform] = m.page
		}
		if err := s.platforms(m, db, sink, owners); err != nil {
			return nil, nil, err
		}
		out = append(out, m)
	}
	return out, owners, nil
}

// model is the configured one, or the offline one where there is none.
func (s *service) model(ctx context.Context, c ModelConfig) (agent.Model, error) {
	if c.Offline() {
		return offline.New(offline.Config{Log: s.log}), nil
	}
	m, err := openai.New(openai.Config{APIKey: c.key, BaseURL: c.BaseURL, Model: c.Name, API: c.API, Vision: c.vision, Log: s.log})
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

// page makes the web place. A process without the web role still has it, since
// its workers fetch from it and post to it.
func (s *service) page(a AgentConfig, db *checkpoints.DB, tc client.Client, sink web.Sink, l net.Listener, model, ui string) (*web.Place, error) {
	c := web.Config{
		Agent: a.ID, Pool: db.Pool(), Dir: s.c.Shared, Turns: turns{db}, MaxBytes: s.c.Images.MaxBytes,
		Model: model, TemporalUI: ui, Log: s.log,
		Console: &inspector{db: db, agent: a.ID, ui: ui, namespace: s.namespace(), live: asks(tc)},
	}
	if l != nil {
		c.Listener, c.Home, c.Sink = l, s.c.Home, sink
	}
	return web.New(c)
}

func (s *service) ingress(db *checkpoints.DB, tc client.Client) *workflows.Ingress {
	return &workflows.Ingress{DB: db, Client: tc, At: s.o.At, Visible: s.attributes(tc).ok.Load, Pulse: &s.pulse}
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

// activities joins the agents with their connectors.
func (s *service) activities(db *checkpoints.DB, members []*member, box *proving) (*workflows.Activities, error) {
	documents := s.reader()
	var swept *tools.Workspaces
	holds := &tools.Holds{}
	a := &workflows.Activities{DB: db, Log: s.log, Drafts: s.c.Drafts, At: s.o.At, Pulse: &s.pulse, Agents: map[chat.AgentID]*workflows.Agent{}}
	memory := agent.NewMemory(maxHeld)
	decoder := visual.NewDecoder(s.c.Images) // one a process: decodes are serial
	for _, m := range members {
		ac := attachments.Config{
			Inventory: s.tele.Inventory(db), Visibility: map[chat.Platform]attachments.Visibility{}, MaxBytes: s.c.Images.MaxBytes,
			Sources: map[chat.AgentID]map[chat.Platform]attachments.Source{m.c.ID: {}},
		}
		repliers := map[chat.Platform]workflows.Replier{}
		for p, c := range m.connectors {
			ac.Visibility[p], ac.Sources[m.c.ID][p], repliers[p] = c, s.tele.Source(p, c), s.tele.Replier(p, c)
		}
		auth, err := attachments.New(ac)
		if err != nil {
			return nil, err
		}
		looker := &agent.Looker{Authorizer: auth, Decoder: decoder, Quarantines: quarantines{db}, At: s.o.At, Decoded: s.tele.Decoded,
			Pages: documents, MaxDocument: documents.Limits().MaxBytes, Memory: memory}
		ws, more := s.workspaces(db, auth, box, holds, looker)
		swept = ws // the workspaces of all agents are in one folder
		registry, err := agent.NewRegistry(append([]agent.Tool{
			&tools.ListDocuments{Authorizer: auth}, &tools.ViewImages{Looker: looker}, &tools.ReadDocument{Authorizer: auth, Reader: documents, Memory: memory},
		}, more...)...)
		if err != nil {
			return nil, err
		}
		a.Agents[m.c.ID] = &workflows.Agent{
			ID: m.c.ID, Name: m.c.Name, Instructions: m.c.Instructions, Authorizer: auth, Repliers: repliers,
			Inference:  &agent.Inference{Model: s.tele.Model(m.model.Info(context.Background()).Name, m.model), Tools: registry, Looker: looker, MaxShown: maxShown},
			Workspaces: func() bool { return box.proved() != nil }, WorkspaceOn: s.c.workspaceOn(m.c),
		}
	}
	if swept != nil {
		s.keepSwept(swept, box)
	}
	return a, nil
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
