package fakediscord

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// nonceLife is how long Discord remembers a nonce: "the past few minutes".
	nonceLife      = 3 * time.Minute
	maxContent     = 2000
	maxFiles       = 10
	maxFile        = 10 << 20
	suppressEmbeds = 1 << 2
)

// draft is the body of a message that is made or edited.
type draft struct {
	Content *string         `json:"content"`
	Nonce   string          `json:"nonce"`
	Enforce bool            `json:"enforce_nonce"`
	Flags   int             `json:"flags"`
	Allowed json.RawMessage `json:"allowed_mentions"`
	Ref     *struct {
		MessageID string `json:"message_id"`
		Fail      *bool  `json:"fail_if_not_exists"`
	} `json:"message_reference"`
	Attachments *[]struct {
		ID       json.Number `json:"id"`
		Filename string      `json:"filename"`
	} `json:"attachments"`

	files []File
}

func (d draft) text() string {
	if d.Content == nil {
		return ""
	}
	return *d.Content
}

// calls reports whether the mentions in the text are let through.
func (d draft) calls() bool {
	var a struct {
		Parse []string `json:"parse"`
		Users []string `json:"users"`
	}
	return len(d.Allowed) == 0 || json.Unmarshal(d.Allowed, &a) != nil || len(a.Parse)+len(a.Users) > 0
}

// readDraft takes JSON, or a form with payload_json and files[n], of which
// attachments names each by its n. It answers what is wrong.
func readDraft(r *http.Request) (d draft, refusal func(http.ResponseWriter)) {
	invalid := func(w http.ResponseWriter) { fail(w, 400, 50035, "Invalid Form Body") }
	no := func(status, code int, m string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { fail(w, status, code, m) }
	}
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		if err := json.NewDecoder(r.Body).Decode(&d); err != nil {
			return d, no(400, 50109, "The request body contains invalid JSON.")
		}
		return d, nil
	}
	if err := r.ParseMultipartForm(64 << 20); err != nil {
		return d, no(400, 50035, "Invalid Form Body")
	}
	defer func() { _ = r.MultipartForm.RemoveAll() }()
	if err := json.Unmarshal([]byte(r.FormValue("payload_json")), &d); err != nil {
		return d, no(400, 50109, "The request body contains invalid JSON.")
	}
	if len(r.MultipartForm.File) > maxFiles || d.Attachments == nil || len(*d.Attachments) != len(r.MultipartForm.File) {
		return d, invalid
	}
	for _, a := range *d.Attachments {
		heads := r.MultipartForm.File[fmt.Sprintf("files[%s]", a.ID)]
		if len(heads) != 1 {
			return d, invalid
		}
		if heads[0].Size > maxFile {
			return d, no(413, 40005, "Request entity too large")
		}
		f, err := heads[0].Open()
		if err != nil {
			return d, invalid
		}
		data, err := io.ReadAll(f)
		_ = f.Close() // it was read
		if err != nil {
			return d, invalid
		}
		name := a.Filename
		if name == "" {
			name = heads[0].Filename
		}
		d.files = append(d.files, File{Name: name, Type: heads[0].Header.Get("Content-Type"), Data: data})
	}
	return d, nil
}

func (s *Server) create(w http.ResponseWriter, r *http.Request, c *channel) bool {
	in, refusal := readDraft(r)
	if refusal != nil {
		refusal(w)
		return true
	}
	need := SendMessages
	if c.thread() {
		need = SendMessagesInThreads
	}
	n := len([]rune(in.text()))
	switch has := s.permissions(c, s.Bot.ID); {
	case has&need == 0, len(in.files) > 0 && has&AttachFiles == 0:
		fail(w, 403, 50013, "Missing Permissions")
		return true
	case n == 0 && len(in.files) == 0:
		fail(w, 400, 50006, "Cannot send an empty message")
		return true
	case n > maxContent || len(in.Nonce) > 25:
		fail(w, 400, 50035, "Invalid Form Body")
		return true
	}
	if in.Enforce && in.Nonce != "" {
		for _, m := range s.messages[c.ID] {
			at, _ := time.Parse("2006-01-02T15:04:05.000000-07:00", m.Timestamp)
			if m.nonce == in.Nonce && m.Author.ID == s.Bot.ID && time.Now().Add(s.now).Sub(at) < nonceLife {
				return answer(w, s.event(m))
			}
		}
	}
	m := s.newMessage(c, s.Bot, in.text())
	m.nonce, m.Flags = in.Nonce, in.Flags
	if !in.calls() {
		m.Mentions = []User{}
	}
	for _, f := range in.files {
		m.Attachments = append(m.Attachments, s.upload(c.ID, f))
	}
	if in.Ref != nil {
		if s.find(c.ID, in.Ref.MessageID) == nil {
			if in.Ref.Fail == nil || *in.Ref.Fail {
				fail(w, 400, 50035, "Invalid Form Body")
				return true
			}
		} else {
			m.Type = 19
		}
		m.MessageReference = &reference{MessageID: in.Ref.MessageID, ChannelID: c.ID, GuildID: c.GuildID}
	}
	s.add(c, m, true)
	return answer(w, s.event(m))
}

// patch edits one of the bot's own messages. What is left out stays, but for
// flags, of which a bot may change one.
func (s *Server) patch(w http.ResponseWriter, r *http.Request, c *channel, id string) bool {
	in, refusal := readDraft(r)
	if refusal != nil {
		refusal(w)
		return true
	}
	m := s.find(c.ID, id)
	switch {
	case m == nil:
		fail(w, 404, 10008, "Unknown Message")
		return true
	case m.Author.ID != s.Bot.ID:
		fail(w, 403, 50005, "Cannot edit a message authored by another user")
		return true
	case c.archived():
		fail(w, 400, 50083, "Thread is archived")
		return true
	case len([]rune(in.text())) > maxContent || in.Nonce != "" || in.Ref != nil || len(in.files) > 0:
		fail(w, 400, 50035, "Invalid Form Body")
		return true
	case in.Content != nil && *in.Content == "" && len(m.Attachments) == 0:
		fail(w, 400, 50006, "Cannot send an empty message")
		return true
	}
	if in.Content != nil {
		m.versions = append(m.versions, m.Content)
		fresh := s.newMessage(c, s.Bot, *in.Content)
		m.Content, m.Mentions = fresh.Content, fresh.Mentions
		if !in.calls() {
			m.Mentions = []User{}
		}
	}
	m.Flags = m.Flags&^suppressEmbeds | in.Flags&suppressEmbeds
	at := s.stamp()
	m.EditedTimestamp = &at
	s.dispatch("MESSAGE_UPDATE", s.event(m), intentOf(c), c)
	return answer(w, s.view(m))
}

// remove deletes one of the bot's own messages.
func (s *Server) remove(w http.ResponseWriter, c *channel, id string) bool {
	m := s.find(c.ID, id)
	switch {
	case m == nil:
		fail(w, 404, 10008, "Unknown Message")
		return true
	case m.Author.ID != s.Bot.ID:
		fail(w, 403, 50013, "Missing Permissions")
		return true
	case c.archived():
		fail(w, 400, 50083, "Thread is archived")
		return true
	}
	m.deleted = true
	s.dispatch("MESSAGE_DELETE", map[string]any{"id": id, "channel_id": c.ID, "guild_id": c.GuildID}, intentOf(c), c)
	w.WriteHeader(http.StatusNoContent)
	return true
}
