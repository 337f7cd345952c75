package slack

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// delivery is the outer shape of an event, from a socket or a request.
type delivery struct {
	Type      string          `json:"type"`
	TeamID    string          `json:"team_id"`
	EventID   string          `json:"event_id"`
	Challenge string          `json:"challenge"`
	Event     json.RawMessage `json:"event"`
}

// message is what this connector reads of a message, alike in events and in
// history. Only these fields are decoded, so that a block of a new kind can't
// fail a message.
type message struct {
	Type         string    `json:"type"`
	Subtype      string    `json:"subtype"`
	Channel      string    `json:"channel"`
	User         string    `json:"user"`
	BotID        string    `json:"bot_id"`
	Username     string    `json:"username"`
	Text         string    `json:"text"`
	TS           string    `json:"ts"`
	ThreadTS     string    `json:"thread_ts"`
	LatestReply  string    `json:"latest_reply"` // of a thread's first message, in history
	ParentUser   string    `json:"parent_user_id"`
	Team         string    `json:"team"`
	UserTeam     string    `json:"user_team"`
	SourceTeam   string    `json:"source_team"`
	Edited       *edited   `json:"edited"`
	Files        []file    `json:"files"`
	Attachments  []share   `json:"attachments"`
	Metadata     *metadata `json:"metadata"`
	Message      *message  `json:"message"`
	Previous     *message  `json:"previous_message"`
	DeletedTS    string    `json:"deleted_ts"`
	FileID       string    `json:"file_id"`
	OldChannelID string    `json:"old_channel_id"`
	NewChannelID string    `json:"new_channel_id"`
}

type edited struct {
	TS string `json:"ts"`
}

type metadata struct {
	Type    string          `json:"event_type"`
	Payload json.RawMessage `json:"event_payload"`
}

// share is an attachment of a message. Those with IsShare are forwarded
// messages; the others are previews of links, which are nobody's upload.
type share struct {
	IsShare  bool   `json:"is_share"`
	Text     string `json:"text"`
	Fallback string `json:"fallback"` // what stands for one that has blocks alone
	Files    []file `json:"files"`
}

type file struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Title      string `json:"title"`
	Mimetype   string `json:"mimetype"`
	Filetype   string `json:"filetype"`
	Mode       string `json:"mode"`
	IsExternal bool   `json:"is_external"`
	FileAccess string `json:"file_access"`
	Size       int64  `json:"size"`
	Width      int    `json:"original_w"`
	Height     int    `json:"original_h"`
	URLPrivate string `json:"url_private"`
}

func (m *message) forwarded() (out []file) {
	for _, a := range m.Attachments {
		if a.IsShare {
			out = append(out, a.Files...)
		}
	}
	return out
}

// hasFiles counts files of the message and of what it forwards.
func (m *message) hasFiles() bool { return len(m.Files) > 0 || len(m.forwarded()) > 0 }

// thread is the thread that the message is in or begins.
func (m *message) thread() string {
	if m.ThreadTS != "" {
		return m.ThreadTS
	}
	return m.TS
}

func (m *message) isReply() bool { return m.ThreadTS != "" && m.ThreadTS != m.TS }

// revision changes with an edit and with the set of files.
func (m *message) revision() string {
	var e string
	if m.Edited != nil {
		e = m.Edited.TS
	}
	var ids []string
	for _, f := range append(append([]file{}, m.Files...), m.forwarded()...) {
		ids = append(ids, f.ID)
	}
	sum := sha256.Sum256([]byte(strings.Join(ids, ",")))
	return e + "/" + hex.EncodeToString(sum[:6])
}

// editedLater: of two revisions of one message, the first is of a later edit.
func editedLater(a, b string) bool {
	x, _, _ := strings.Cut(a, "/")
	y, _, _ := strings.Cut(b, "/")
	return x > y
}

// merge adds what a twin event of the same message has more.
func (m *message) merge(o *message) {
	if m.Text == "" {
		m.Text = o.Text
	}
	for _, p := range []struct{ to, from *string }{
		{&m.User, &o.User}, {&m.BotID, &o.BotID}, {&m.ThreadTS, &o.ThreadTS}, {&m.ParentUser, &o.ParentUser},
		{&m.Team, &o.Team}, {&m.UserTeam, &o.UserTeam}, {&m.SourceTeam, &o.SourceTeam}, {&m.Subtype, &o.Subtype},
	} {
		if *p.to == "" {
			*p.to = *p.from
		}
	}
	if m.Edited == nil {
		m.Edited = o.Edited
	}
	if len(o.Files) > len(m.Files) {
		m.Files = o.Files
	}
	if len(m.Attachments) == 0 || len(o.forwarded()) > len(m.forwarded()) {
		m.Attachments = o.Attachments
	}
}

// stamp reads a ts, which is seconds with six decimals.
func stamp(ts string) time.Time {
	sec, frac, _ := strings.Cut(ts, ".")
	s, err := strconv.ParseInt(sec, 10, 64)
	if err != nil {
		return time.Time{}
	}
	us, _ := strconv.ParseInt((frac + "000000")[:6], 10, 64)
	return time.Unix(s, us*1000).UTC()
}

// unstamp writes one.
func unstamp(t time.Time) string {
	return strconv.FormatInt(t.Unix(), 10) + "." + (strconv.FormatInt(1_000_000+int64(t.Nanosecond()/1000), 10))[1:]
}
