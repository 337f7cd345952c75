package fakeslack

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
)

const maxMarkdown = 12_000

// rewrite changes messages of the agent's own. A stream takes neither an edit
// nor a deletion before it is stopped, and nothing more after.
func (s *Server) rewrite(name string, in map[string]string) object {
	c := s.channels[s.present(in["channel"])]
	switch {
	case c == nil:
		return refuse("channel_not_found")
	case !c.IsMember && !c.IsIM:
		return refuse("not_in_channel")
	case !chunked(in):
		return refuse("invalid_chunks")
	case len([]rune(in["markdown_text"])) > maxMarkdown:
		return refuse("msg_too_long")
	}
	if name == "chat.startStream" {
		return s.startStream(c, in)
	}
	n := s.find(c.ID, in["ts"])
	if n < 0 {
		return refuse("message_not_found")
	}
	m := &s.messages[c.ID][n]
	own := m.User == BotUser
	before := s.object(*m)
	answer := object{"ok": true, "channel": c.ID, "ts": m.TS}
	switch name {
	case "chat.update":
		switch no := wordsOf(in); {
		case !own:
			return refuse("cant_update_message")
		case m.streaming:
			return refuse("streaming_state_conflict")
		case no != nil:
			return no
		}
		m.rewritten(in["text"])
		m.Blocks = nil // they go where only a text comes
		if in["blocks"] != "" {
			m.Blocks = json.RawMessage(in["blocks"])
		}
		if in["metadata"] != "" {
			m.Metadata = json.RawMessage(in["metadata"])
		}
		answer["text"] = m.Text
	case "chat.delete":
		if !own || m.streaming {
			return refuse("cant_delete_message")
		}
		s.dropped[c.ID] = append(append(s.dropped[c.ID], m.versions...), m.Text)
		ts := m.TS
		s.messages[c.ID] = slices.Delete(s.messages[c.ID], n, n+1)
		s.hub.emit(object{"type": "message", "subtype": "message_deleted", "hidden": true, "channel": c.ID, "ts": s.tick(), "event_ts": s.tick(),
			"deleted_ts": ts, "previous_message": before})
		return answer
	case "chat.appendStream", "chat.stopStream":
		switch {
		case !own || !m.streaming:
			return refuse("message_not_in_streaming_state")
		case name == "chat.appendStream" && in["markdown_text"] == "":
			return refuse("no_text")
		}
		if in["markdown_text"] != "" {
			m.rewritten(m.Text + in["markdown_text"])
		}
		m.streaming = name == "chat.appendStream"
		if in["metadata"] != "" {
			m.Metadata = json.RawMessage(in["metadata"])
		}
		if m.streaming {
			return answer
		}
	}
	s.hub.emit(object{"type": "message", "subtype": "message_changed", "hidden": true, "channel": c.ID, "ts": s.tick(), "event_ts": s.tick(),
		"message": s.object(*m), "previous_message": before})
	return answer
}

// chunked makes one text of a stream's chunks, the other way to send it.
func chunked(in map[string]string) bool {
	var list []struct{ Type, Text string }
	if in["chunks"] == "" {
		return true
	}
	if json.Unmarshal([]byte(in["chunks"]), &list) != nil {
		return false
	}
	for _, c := range list {
		if c.Type != "markdown_text" {
			return false // tasks and plans are not known here
		}
		in["markdown_text"] += c.Text
	}
	return true
}

func (m *Message) rewritten(text string) {
	m.versions = append(slices.Clone(m.versions), m.Text)
	m.Text = text
}

func (s *Server) startStream(c *Channel, in map[string]string) object {
	switch {
	case in["thread_ts"] == "":
		return refuse("invalid_arguments")
	case !c.IsIM && in["recipient_user_id"] == "":
		return refuse("missing_recipient_user_id")
	case !c.IsIM && in["recipient_team_id"] == "":
		return refuse("missing_recipient_team_id")
	case s.find(c.ID, in["thread_ts"]) < 0:
		return refuse("thread_not_found")
	}
	m := s.stored(Message{Channel: c.ID, User: BotUser, BotID: BotID, Text: in["markdown_text"], ThreadTS: in["thread_ts"], streaming: true})
	return object{"ok": true, "channel": c.ID, "ts": m.TS}
}

// stored posts as the agent, with the event that everybody gets.
func (s *Server) stored(m Message) Message {
	m = s.store(m)
	e := s.object(m)
	e["channel"], e["event_ts"] = m.Channel, m.TS
	s.hub.emit(e)
	return m
}

func (s *Server) uploadURL(in map[string]string) object {
	n, err := strconv.ParseInt(in["length"], 10, 64)
	if err != nil || n < 1 || in["filename"] == "" {
		return refuse("invalid_arguments")
	}
	f := &File{ID: s.id("F"), Name: in["filename"], Title: in["filename"], Mode: "hosted", Size: n}
	s.pending[f.ID] = f
	return object{"ok": true, "upload_url": s.origin() + "/upload/v1/" + f.ID, "file_id": f.ID}
}

// upload takes the bytes of one file: raw, or in a form as Slack's own client
// sends them.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	f := s.pending[r.PathValue("id")]
	fail := s.failures["upload"]
	failing := fail != nil && fail.Times > 0
	if failing {
		fail.Times--
	}
	s.mu.Unlock()
	body := io.Reader(http.MaxBytesReader(w, r.Body, 1<<30))
	if m, err := r.MultipartReader(); err == nil {
		part, err := m.NextPart()
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		body = part
	}
	data, err := io.ReadAll(body)
	switch {
	case failing:
		w.WriteHeader(fail.Status)
		return
	case f == nil || err != nil || r.Header.Get("Authorization") != "" && !isBot(r):
		w.WriteHeader(http.StatusNotFound)
		return
	case int64(len(data)) != f.Size:
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	f.Data = data
	s.mu.Unlock()
	_, _ = fmt.Fprintf(w, "OK - %d", len(data))
}

// complete shares uploads. Doing it twice shares them twice.
func (s *Server) complete(in map[string]string) object {
	var list []struct{ ID, Title string }
	if json.Unmarshal([]byte(in["files"]), &list) != nil || len(list) == 0 {
		return refuse("invalid_arguments")
	}
	m := Message{User: BotUser, BotID: BotID, Text: in["initial_comment"], ThreadTS: in["thread_ts"]}
	var short []object
	for _, u := range list {
		f := s.pending[u.ID]
		if f == nil || f.Data == nil {
			return refuse("file_not_found")
		}
		if u.Title != "" {
			f.Title = u.Title
		}
		f.URLPrivate = s.origin() + "/files-pri/" + Team + "-" + f.ID + "/" + f.ID
		s.files[f.ID] = f
		m.Files = append(m.Files, *f)
		short = append(short, object{"id": f.ID, "title": f.Title})
	}
	if in["channel_id"] != "" {
		c := s.channels[s.present(in["channel_id"])]
		switch {
		case c == nil:
			return refuse("channel_not_found")
		case !c.IsMember && !c.IsIM:
			return refuse("not_in_channel")
		}
		m.Channel = c.ID
		s.stored(m)
	}
	return object{"ok": true, "files": short}
}

// EndStreams ends all streams, as Slack does with those that are old or idle.
func (s *Server) EndStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, list := range s.messages {
		for n := range list {
			list[n].streaming = false
		}
	}
}

// Streaming reports whether a message still streams.
func (s *Server) Streaming(channel, ts string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.find(s.present(channel), ts)
	return n >= 0 && s.messages[s.present(channel)][n].streaming
}

// Versions are the texts that the agent's messages of a channel ever had,
// those of deleted messages first.
func (s *Server) Versions(channel string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Clone(s.dropped[s.present(channel)])
	for _, m := range s.messages[s.present(channel)] {
		if m.User == BotUser {
			out = append(append(out, m.versions...), m.Text)
		}
	}
	return out
}
