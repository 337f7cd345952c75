package fakeslack

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// AddChannel opens a conversation. The bot is in it if it is among the
// members.
func (s *Server) AddChannel(c Channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Members = slices.Clone(c.Members) // the caller's list may serve several channels
	c.IsMember = slices.Contains(c.Members, BotUser)
	s.channels[c.ID] = &c
}

// ChangeChannel changes flags or members, without an event.
func (s *Server) ChangeChannel(id string, f func(*Channel)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[s.present(id)]
	f(c)
	c.IsMember = slices.Contains(c.Members, BotUser)
}

// Kick removes a member and says so.
func (s *Server) Kick(channel, user string) error {
	s.ChangeChannel(channel, func(c *Channel) {
		c.Members = slices.DeleteFunc(c.Members, func(u string) bool { return u == user })
	})
	return s.Emit(map[string]any{"type": "member_left_channel", "user": user, "channel": channel, "team": Team})
}

// Share gives a channel another ID, as it happens when it is shared. The old
// ones go on resolving.
func (s *Server) Share(old, id string) error {
	s.mu.Lock()
	c := s.channels[old]
	delete(s.channels, old)
	c.ID, c.IsExtShared = id, true
	s.channels[id], s.messages[id] = c, s.messages[old]
	for first, now := range s.moved {
		if now == old {
			s.moved[first] = id
		}
	}
	s.moved[old] = id
	delete(s.messages, old)
	s.mu.Unlock()
	return s.Emit(map[string]any{"type": "channel_id_changed", "old_channel_id": old, "new_channel_id": id})
}

// AddUser adds a person or a bot.
func (s *Server) AddUser(u User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[u.ID] = u
}

// SetScopes replaces the bot token's.
func (s *Server) SetScopes(scopes ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scopes = scopes
}

// Without is Scopes but one.
func Without(scope string) []string {
	return slices.DeleteFunc(Scopes(), func(s string) bool { return s == scope })
}

// Upload puts a file on the host. It is in no message yet.
func (s *Server) Upload(name, mimetype string, data []byte) File {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := File{ID: s.id("F"), Name: name, Title: name, Mimetype: mimetype, Mode: "hosted", Size: int64(len(data)), Data: data}
	f.URLPrivate = s.origin() + "/files-pri/" + Team + "-" + f.ID + "/" + f.ID
	s.files[f.ID] = &f
	return f
}

// PutFile replaces what files.info and the host say of a file.
func (s *Server) PutFile(f File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[f.ID] = &f
}

// Pass lets time go by between what was posted so far and what comes.
func (s *Server) Pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = max(s.clock, time.Now().UnixMicro()) + d.Microseconds()
}

// Store posts without an event. Its ts is the server's next.
func (s *Server) Store(m Message) Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store(m)
}

func (s *Server) store(m Message) Message {
	m.Type, m.Channel, m.TS = "message", s.present(m.Channel), s.tick()
	if m.Team == "" {
		m.Team = Team
	}
	if m.ThreadTS != "" {
		if n := s.find(m.Channel, m.ThreadTS); n >= 0 {
			root := &s.messages[m.Channel][n]
			root.ThreadTS, m.ParentUser = root.TS, root.User
		}
	}
	if len(m.Files) > 0 && m.Subtype == "" {
		m.Subtype = "file_share"
	}
	s.messages[m.Channel] = append(s.messages[m.Channel], m)
	return m
}

// Post posts, and sends the events that Slack sends: message, and app_mention
// where the bot is called in a channel.
func (s *Server) Post(m Message) (Message, error) {
	m = s.Store(m)
	for _, e := range s.EventsOf(m) {
		if err := s.Emit(e); err != nil {
			return m, err
		}
	}
	return m, nil
}

// EventsOf are the events of a posted message; message first.
func (s *Server) EventsOf(m Message) []map[string]any {
	s.mu.Lock()
	c := s.channels[m.Channel]
	s.mu.Unlock()
	kind := map[bool]string{true: "group", false: "channel"}[c.IsPrivate]
	if c.IsIM {
		kind = "im"
	} else if c.IsMPIM {
		kind = "mpim"
	}
	e := s.object(m)
	e["channel"], e["event_ts"], e["channel_type"] = m.Channel, m.TS, kind
	out := []map[string]any{e}
	if strings.Contains(m.Text, "<@"+BotUser+">") && !c.IsIM {
		a := s.object(m)
		a["type"], a["channel"], a["event_ts"] = "app_mention", m.Channel, m.TS
		delete(a, "subtype")
		out = append(out, a)
	}
	return out
}

func (s *Server) object(m Message) map[string]any {
	b, err := json.Marshal(m)
	if err != nil {
		panic("fakeslack: " + err.Error()) // the type is our own
	}
	var o map[string]any
	if err := json.Unmarshal(b, &o); err != nil {
		panic("fakeslack: " + err.Error())
	}
	return o
}

// Edit changes a message and says so.
func (s *Server) Edit(channel, ts string, f func(*Message)) error {
	e, err := s.Amend(channel, ts, f)
	if err != nil {
		return err
	}
	return s.Emit(e)
}

// Amend changes a message without an event.
func (s *Server) Amend(channel, ts string, f func(*Message)) (change map[string]any, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.find(channel, ts)
	if n < 0 {
		return nil, fmt.Errorf("fakeslack: no message %s", ts)
	}
	m := &s.messages[channel][n]
	before := s.object(*m)
	f(m)
	m.Edited = map[string]any{"user": m.User, "ts": s.tick()}
	return map[string]any{
		"type": "message", "subtype": "message_changed", "hidden": true, "channel": channel, "ts": s.tick(), "event_ts": s.tick(),
		"message": s.object(*m), "previous_message": before,
	}, nil
}

// Remove deletes a message without an event. Of one with replies Slack leaves
// a tombstone, which has its place in the history and its thread.
func (s *Server) Remove(channel, ts string) (deletion map[string]any, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.find(channel, ts)
	if n < 0 {
		return nil, fmt.Errorf("fakeslack: no message %s", ts)
	}
	before := s.object(s.messages[channel][n])
	if slices.ContainsFunc(s.messages[channel], func(m Message) bool { return m.ThreadTS == ts && m.TS != ts }) {
		s.messages[channel][n] = Message{Type: "message", Channel: channel, TS: ts, ThreadTS: ts, User: "USLACKBOT", Subtype: "tombstone", Text: "This message was deleted."}
		return map[string]any{
			"type": "message", "subtype": "message_changed", "hidden": true, "channel": channel, "ts": s.tick(), "event_ts": s.tick(),
			"message": s.object(s.messages[channel][n]), "previous_message": before,
		}, nil
	}
	s.messages[channel] = slices.Delete(s.messages[channel], n, n+1)
	return map[string]any{
		"type": "message", "subtype": "message_deleted", "hidden": true, "channel": channel, "ts": s.tick(), "event_ts": s.tick(),
		"deleted_ts": ts, "previous_message": before,
	}, nil
}

// Delete deletes a message and says so.
func (s *Server) Delete(channel, ts string) error {
	e, err := s.Remove(channel, ts)
	if err != nil {
		return err
	}
	return s.Emit(e)
}

// DeleteFile leaves a tombstone in every message, and says that it is gone.
func (s *Server) DeleteFile(id string) error { return s.Emit(s.Purge(id)) }

// Purge is DeleteFile without an event. What was forwarded goes as well.
func (s *Server) Purge(id string) (deletion map[string]any) {
	s.replaceFile(File{ID: id, Mode: "tombstone"})
	return map[string]any{"type": "file_deleted", "file_id": id}
}

// HideFile is what a workspace's plan does to old files, without an event. The
// host would still serve it.
func (s *Server) HideFile(id string) {
	s.mu.Lock()
	f := *s.files[id]
	s.mu.Unlock()
	f.Mode = "hidden_by_limit"
	s.replaceFile(f)
}

func (s *Server) replaceFile(f File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[f.ID] = &f
	swap := func(list []File) {
		for k := range list {
			if list[k].ID == f.ID {
				list[k] = f
			}
		}
	}
	for _, list := range s.messages {
		for n := range list {
			// The lists may be shared with whoever posted them.
			list[n].Files, list[n].Attachments = slices.Clone(list[n].Files), slices.Clone(list[n].Attachments)
			swap(list[n].Files)
			for k := range list[n].Attachments {
				list[n].Attachments[k].Files = slices.Clone(list[n].Attachments[k].Files)
				swap(list[n].Attachments[k].Files)
			}
		}
	}
}

// HideFor keeps a message out of the next n lookups.
func (s *Server) HideFor(ts string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden[ts] = n
}

// Fail makes a method fail.
func (s *Server) Fail(method string, f Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures[method] = &f
}

// Calls are those of one method so far.
func (s *Server) Calls(method string) (out []Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.Method == method {
			out = append(out, c)
		}
	}
	return out
}

// Messages are what a channel or, with a ts, one of its threads has now.
func (s *Server) Messages(channel, thread string) (out []Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages[s.present(channel)] {
		if thread == "" || m.TS == thread || m.ThreadTS == thread {
			out = append(out, m)
		}
	}
	return out
}

// Served counts the bytes that the file host gave away.
func (s *Server) Served() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}

// Responses are what came to the response URLs of commands.
func (s *Server) Responses() []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.responses)
}
