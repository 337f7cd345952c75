package discord

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sightline/attachments"
	"sightline/connectors/chat"
	"sightline/tests/fakediscord"
)

// book is a store of what was recorded.
type book struct {
	mu   sync.Mutex
	rows []Recorded
}

func (k *book) recent(context.Context) ([]Recorded, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.rows), nil
}

func (k *book) keep(e chat.Event, channel string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := Recorded{Workspace: e.Place.Workspace, Channel: channel, Message: e.Message.NativeID, Revision: e.Message.Revision}
	if e.Place.Thread != "" {
		r.Parent = e.Place.Channel
	}
	k.rows = append([]Recorded{r}, k.rows...)
}

// Edits and deletions that no event told of are found when a session begins
// anew, in a channel, a thread and a direct message, by the same process and
// by the next.
func TestChangesInAGap(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) {
			w, k := newWorld(t), &book{}
			w.change = func(c *Config) { c.Recent = k.recent }
			thread := w.AddThread(w.channel, fakediscord.PublicThread, w.alice, w.Bot.ID)
			dm := w.AddDM(w.alice)
			w.run()
			take := func(channel string, d draft) (fakediscord.Message, chat.Event) {
				m := w.Post(channel, w.alice, d)
				e := w.next()
				k.keep(e, channel)
				return m, e
			}
			// The mention is edited away: as new it would be nobody's business.
			edited, first := take(w.channel, draft{Text: w.at() + " one", Files: []fakediscord.File{png("a.png")}})
			gone, second := take(thread, draft{Text: "two"})
			deleted, third := take(dm, draft{Files: []fakediscord.File{png("c.png")}})
			take(w.channel, draft{Text: w.at() + " stays"})
			w.Lose(true)
			w.Edit(edited, "reworded", 0)
			w.Delete(gone)
			w.Delete(deleted)
			if restart {
				w.stop()
				w.Lose(false)
				w.run()
			} else {
				w.Forget()
				w.Lose(false)
			}
			want := map[chat.MessageID]func(chat.Event) bool{
				first.Message.ID: func(e chat.Event) bool {
					return e.Kind == chat.MessageEdited && e.Message.Text == "reworded" && len(e.Files) == 0
				},
				second.Message.ID: func(e chat.Event) bool { return e.Kind == chat.MessageDeleted },
				third.Message.ID:  func(e chat.Event) bool { return e.Kind == chat.MessageDeleted },
			}
			for len(want) > 0 {
				e := w.next()
				if f := want[e.Message.ID]; f == nil || !f(e) {
					t.Errorf("%+v", e)
				}
				delete(want, e.Message.ID)
			}
			w.nothing(w.channel)
			d, err := w.bot.Decide(t.Context(), attachments.Question{Agent: agent, Actor: third.Message.Author, Source: third.Place,
				Message: third.Message.ID, Destination: third.Place, Trigger: third.Message.ID})
			if err != nil || d.Allowed() {
				t.Errorf("what was deleted in the gap is allowed: %+v, %v", d, err)
			}
		})
	}
}

// A channel whose history may not be read looks empty. That is no deletion.
func TestDoubtIsNoDeletion(t *testing.T) {
	w, k := newWorld(t), &book{}
	w.change = func(c *Config) { c.Recent = k.recent }
	w.run()
	w.Post(w.channel, w.alice, draft{Text: w.at() + " one"})
	k.keep(w.next(), w.channel)
	w.SetRole(w.guild, w.guild, fakediscord.ViewChannel|fakediscord.SendMessages)
	w.Forget()
	w.until("it was tried", func() bool { return strings.Contains(w.log.String(), "messages recorded before") })
	w.nothing(w.channel)
}

// What is read is bounded, whatever the store has.
func TestComparingIsBounded(t *testing.T) {
	w, k := newWorld(t), &book{}
	w.change = func(c *Config) { c.Recent = k.recent }
	old := w.Post(w.channel, w.alice, draft{Text: "old"})
	for range 5 * pageSize {
		w.Post(w.channel, w.alice, draft{Text: "talk", Quiet: true})
	}
	k.rows = append(k.rows, Recorded{Workspace: w.guild, Channel: w.channel, Message: old.ID, Revision: "another"})
	for n := range 3 * comparedChannels {
		k.rows = append(k.rows, Recorded{Workspace: w.guild, Channel: fmt.Sprint(9000 + n), Message: "1", Revision: "another"})
	}
	w.run()
	w.until("the channel was read", func() bool {
		return w.calls("/channels/"+w.channel+"/messages") == comparedPages
	})
	w.until("the others were tried", func() bool { return w.calls("/channels/9") >= comparedChannels-1 })
	w.nothing(w.channel)
	if n := w.calls("/channels/9"); n >= comparedChannels+comparedPages+1 {
		t.Errorf("%d channels were read", n)
	}
}

func (w *world) calls(path string) (n int) {
	for _, r := range w.Requests() {
		if strings.HasPrefix(r, "GET "+path) {
			n++
		}
	}
	return n
}

// What is edited and deleted in a channel while the agent may not read it, it
// looks for when it may again, whatever kept it out.
func TestChangesBehindAClosedDoor(t *testing.T) {
	const reads = fakediscord.ViewChannel | fakediscord.ReadMessageHistory | fakediscord.SendMessages
	for name, door := range map[string]struct{ close, open func(w *world, role string) }{
		"an overwrite": {
			close: func(w *world, _ string) {
				w.SetOverwrites(w.channel, fakediscord.Deny(w.guild, fakediscord.ViewChannel))
			},
			open: func(w *world, _ string) { w.SetOverwrites(w.channel) },
		},
		"a role": {
			close: func(w *world, role string) {
				w.SetRole(w.guild, w.guild, 0)
				w.SetRole(w.guild, role, 0)
			},
			open: func(w *world, role string) { w.SetRole(w.guild, role, reads) },
		},
		"closed before it came": {
			close: func(w *world, _ string) {
				w.SetOverwrites(w.channel, fakediscord.Deny(w.guild, fakediscord.ReadMessageHistory))
				w.stop()
				w.run()
			},
			open: func(w *world, _ string) { w.SetOverwrites(w.channel) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, k := newWorld(t), &book{}
			w.change = func(c *Config) { c.Recent = k.recent }
			role := w.AddRole(w.guild, reads, w.Bot.ID)
			thread := w.AddThread(w.channel, fakediscord.PublicThread, w.alice, w.Bot.ID)
			w.run()
			take := func(channel string, d draft) (fakediscord.Message, chat.Event) {
				m := w.Post(channel, w.alice, d)
				e := w.next()
				k.keep(e, channel)
				return m, e
			}
			gone, first := take(w.channel, draft{Text: w.at() + " one", Files: []fakediscord.File{png("a.png")}})
			edited, second := take(thread, draft{Text: "two"})
			door.close(w, role)
			w.until("the agent knows that it is shut", func() bool {
				w.bot.shut.mu.Lock()
				defer w.bot.shut.mu.Unlock()
				return w.bot.shut.m[w.channel] && w.bot.shut.m[thread]
			})
			w.Delete(gone)
			w.Edit(edited, "three", 0)
			door.open(w, role)
			want := map[chat.MessageID]chat.EventKind{first.Message.ID: chat.MessageDeleted, second.Message.ID: chat.MessageEdited}
			for len(want) > 0 {
				if e := w.next(); want[e.Message.ID] != e.Kind {
					t.Fatalf("%+v", e)
				} else {
					delete(want, e.Message.ID)
				}
			}
			w.nothing(w.channel)
		})
	}
}

// A deletion that the store can't take yet is known all the same.
func TestGoneBeforeItIsRecorded(t *testing.T) {
	w := newWorld(t).run()
	m := w.Post(w.channel, w.alice, draft{Text: w.at() + " one"})
	e := w.next()
	if w.bot.Gone(e.Place, e.Message) {
		t.Error("it is there")
	}
	var tried atomic.Bool
	w.sink.failing(func(chat.Event) error { tried.Store(true); return errors.New("the store is away") })
	w.Delete(m)
	w.until("the store was told", tried.Load)
	if !w.bot.Gone(e.Place, e.Message) {
		t.Error("it is gone")
	}
	other := e.Place
	other.Channel = "1"
	if w.bot.Gone(other, e.Message) {
		t.Error("in a place that is none")
	}
	w.sink.failing(nil)
	if e := w.next(); e.Kind != chat.MessageDeleted {
		t.Errorf("%+v", e)
	}
}
