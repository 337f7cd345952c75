package fakeslack

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

type object = map[string]any

var needs = map[string]string{ // scopes by method; those of conversations depend on the kind
	"users.info": "users:read", "files.info": "files:read", "chat.postMessage": "chat:write", "chat.update": "chat:write",
	"chat.postEphemeral": "chat:write", "assistant.threads.setStatus": "chat:write",
	"chat.delete": "chat:write", "chat.startStream": "chat:write", "chat.appendStream": "chat:write", "chat.stopStream": "chat:write",
	"files.getUploadURLExternal": "files:write", "files.completeUploadExternal": "files:write",
}

// method answers one Web API call, with Slack's order of refusals: rate,
// token, scope, arguments.
func (s *Server) method(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("method")
	r.Body = http.MaxBytesReader(w, r.Body, 4<<20)
	form := map[string]string{}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		var o object
		_ = json.NewDecoder(r.Body).Decode(&o)
		for k, v := range o {
			if str, ok := v.(string); ok {
				form[k] = str
			} else if b, err := json.Marshal(v); err == nil {
				form[k] = string(b)
			}
		}
	} else if r.ParseForm() == nil {
		for k := range r.Form {
			form[k] = r.Form.Get(k)
		}
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token == "" {
		token = form["token"]
	}
	delete(form, "token")

	s.mu.Lock()
	f := s.failures[name]
	hang := f != nil && f.Hang && f.Times > 0
	if hang {
		f.Times--
	}
	s.mu.Unlock()
	if hang {
		<-r.Context().Done()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, Call{name, form})
	if f != nil && f.Times > 0 {
		f.Times--
		if f.After {
			s.answer(name, token, form)
		}
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		}
		if f.Status != 0 {
			w.WriteHeader(f.Status)
			return
		}
		write(w, object{"ok": false, "error": f.Code})
		return
	}
	w.Header().Set("X-OAuth-Scopes", strings.Join(s.scopes, ","))
	write(w, s.answer(name, token, form))
}

func write(w http.ResponseWriter, o object) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(o)
}

func refuse(code string) object { return object{"ok": false, "error": code} }

func (s *Server) lacks(scope string) object {
	if scope == "" || slices.Contains(s.scopes, scope) {
		return nil
	}
	return object{"ok": false, "error": "missing_scope", "needed": scope, "provided": strings.Join(s.scopes, ",")}
}

func (s *Server) answer(name, token string, in map[string]string) object {
	if name == "apps.connections.open" {
		switch token {
		case AppToken:
			return object{"ok": true, "url": "ws" + strings.TrimPrefix(s.origin(), "http") + "/link?ticket=" + s.id("t")}
		case BotToken, SecondToken:
			return refuse("not_allowed_token_type")
		}
		return refuse("invalid_auth")
	}
	if token != BotToken && token != SecondToken {
		return refuse("invalid_auth")
	}
	if no := s.lacks(needs[name]); no != nil {
		return no
	}
	switch name {
	case "auth.test":
		return object{"ok": true, "url": s.origin(), "team": "fake", "user": "agent", "team_id": Team, "user_id": BotUser, "bot_id": BotID}
	case "users.info":
		if u, ok := s.users[in["user"]]; ok {
			return object{"ok": true, "user": u}
		}
		return refuse("user_not_found")
	case "files.info":
		f := s.files[in["file"]]
		switch {
		case f == nil:
			return refuse("file_not_found")
		case f.Mode == "tombstone":
			return refuse("file_deleted")
		}
		return object{"ok": true, "file": f}
	case "chat.postMessage", "chat.postEphemeral", "assistant.threads.setStatus":
		return s.say(name, in)
	case "chat.update", "chat.delete", "chat.startStream", "chat.appendStream", "chat.stopStream":
		return s.rewrite(name, in)
	case "files.getUploadURLExternal":
		return s.uploadURL(in)
	case "files.completeUploadExternal":
		return s.complete(in)
	case "users.conversations":
		for _, k := range []string{"channels", "groups", "im", "mpim"} {
			if no := s.lacks(k + ":read"); no != nil {
				return no
			}
		}
		var list []*Channel
		for _, id := range slices.Sorted(maps.Keys(s.channels)) {
			if c := s.channels[id]; (c.IsMember || c.IsIM) && !(c.IsArchived && truth(in["exclude_archived"])) {
				list = append(list, c)
			}
		}
		return page(in, list, "channels")
	case "conversations.info", "conversations.history", "conversations.replies", "conversations.members":
		return s.conversation(name, in)
	}
	return refuse("unknown_method")
}

func (s *Server) kind(c *Channel) string {
	switch {
	case c.IsIM:
		return "im"
	case c.IsMPIM:
		return "mpim"
	case c.IsPrivate:
		return "groups"
	}
	return "channels"
}

func (s *Server) conversation(name string, in map[string]string) object {
	c := s.channels[s.present(in["channel"])]
	if c == nil || c.IsPrivate && !c.IsMember && !c.IsIM {
		return refuse("channel_not_found")
	}
	what := map[bool]string{true: ":read", false: ":history"}[name == "conversations.info" || name == "conversations.members"]
	if no := s.lacks(s.kind(c) + what); no != nil {
		return no
	}
	switch name {
	case "conversations.info":
		return object{"ok": true, "channel": c}
	case "conversations.members":
		return page(in, c.Members, "members")
	}
	if !c.IsMember && !c.IsIM {
		return refuse("not_in_channel")
	}
	var list []Message
	for _, m := range s.messages[c.ID] {
		reply := m.ThreadTS != "" && m.ThreadTS != m.TS
		root := name == "conversations.replies" && m.TS == in["ts"]
		switch {
		case name == "conversations.history" && reply && m.Subtype != "thread_broadcast":
			continue
		case name == "conversations.replies" && m.ThreadTS != in["ts"] && !root:
			continue
		case !root && !within(m.TS, in): // the first message comes whatever the bounds are
			continue
		}
		if !truth(in["include_all_metadata"]) {
			m.Metadata = nil
		}
		for _, o := range s.messages[c.ID] {
			if o.ThreadTS == m.TS && o.TS != m.TS {
				m.LatestReply = o.TS
			}
		}
		list = append(list, m)
	}
	for _, m := range list {
		if s.hidden[m.TS] > 0 && (in["latest"] == m.TS || in["ts"] != "") {
			s.hidden[m.TS]--
			list = slices.DeleteFunc(list, func(o Message) bool { return o.TS == m.TS })
			break
		}
	}
	if name == "conversations.replies" {
		if len(list) == 0 {
			return refuse("thread_not_found")
		}
	} else {
		slices.Reverse(list)
	}
	return page(in, list, "messages")
}

// truth: clients send either.
func truth(s string) bool { return s == "true" || s == "1" }

func within(ts string, in map[string]string) bool {
	inclusive := truth(in["inclusive"])
	if o := in["oldest"]; o != "" && (ts < o || ts == o && !inclusive) {
		return false
	}
	if l := in["latest"]; l != "" && (ts > l || ts == l && !inclusive) {
		return false
	}
	return true
}

func page[T any](in map[string]string, list []T, key string) object {
	limit, _ := strconv.Atoi(in["limit"])
	if limit <= 0 {
		limit = 100
	}
	at, _ := strconv.Atoi(in["cursor"])
	at = min(at, len(list))
	end := min(at+limit, len(list))
	o := object{"ok": true, key: append([]T{}, list[at:end]...), "has_more": end < len(list)}
	if end < len(list) {
		o["response_metadata"] = object{"next_cursor": strconv.Itoa(end)}
	}
	return o
}

func (s *Server) say(name string, in map[string]string) object {
	channel := in["channel"] + in["channel_id"]
	c := s.channels[s.present(channel)]
	switch {
	case c == nil:
		return refuse("channel_not_found")
	case !c.IsMember && !c.IsIM:
		return refuse("not_in_channel")
	case c.IsArchived:
		return refuse("is_archived")
	}
	switch name {
	case "assistant.threads.setStatus":
		if in["thread_ts"] == "" {
			return refuse("invalid_arguments")
		}
		s.status = append(s.status, Call{name, in})
		return object{"ok": true}
	case "chat.postEphemeral":
		return object{"ok": true, "message_ts": s.tick()}
	}
	if no := wordsOf(in); no != nil {
		return no
	}
	m := Message{Channel: c.ID, User: BotUser, BotID: BotID, Text: in["text"], ThreadTS: in["thread_ts"]}
	if in["blocks"] != "" {
		m.Blocks = json.RawMessage(in["blocks"])
	}
	if in["metadata"] != "" {
		m.Metadata = json.RawMessage(in["metadata"])
	}
	m = s.stored(m)
	return object{"ok": true, "channel": c.ID, "ts": m.TS, "message": m}
}

// wordsOf refuses what no message may be.
func wordsOf(in map[string]string) object {
	if in["text"] == "" && in["blocks"] == "" {
		return refuse("no_text")
	}
	var blocks []struct{ Type, Text string }
	if in["blocks"] != "" && json.Unmarshal([]byte(in["blocks"]), &blocks) != nil {
		return refuse("invalid_blocks")
	}
	total := 0
	for _, b := range blocks {
		if b.Type == "markdown" {
			total += len([]rune(b.Text))
		}
	}
	switch {
	case total > maxMarkdown:
		return refuse("msg_blocks_too_long")
	case in["metadata"] != "" && !json.Valid([]byte(in["metadata"])):
		return refuse("metadata_must_be_sent_as_json")
	}
	return nil
}

const signIn = "<!DOCTYPE html><html><head><title>Sign in | Slack</title></head><body>Sign in to your workspace</body></html>"

// download is the file host. Without files:read it answers as Slack does: 200
// and its sign-in page.
func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	_, id, _ := strings.Cut(r.PathValue("id"), "-")
	f := s.files[id]
	ok := isBot(r) && s.lacks("files:read") == nil
	fail := s.failures["file"]
	failing := fail != nil && fail.Times > 0
	if failing {
		fail.Times--
	}
	s.mu.Unlock()
	switch {
	case failing:
		w.WriteHeader(fail.Status)
	case !ok:
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = io.WriteString(w, signIn)
	case f == nil || f.Mode == "tombstone":
		w.WriteHeader(http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", fmt.Sprint(len(f.Data)))
		for at := 0; at < len(f.Data); {
			n, err := w.Write(f.Data[at:min(at+32<<10, len(f.Data))])
			at += n
			s.mu.Lock()
			s.served += int64(n)
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}
}

func (s *Server) response(w http.ResponseWriter, r *http.Request) {
	var o object
	if json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&o) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	o["authorization"] = r.Header.Get("Authorization") // nobody's business: it has to be empty
	s.mu.Lock()
	s.responses = append(s.responses, o)
	s.mu.Unlock()
}

func isBot(r *http.Request) bool {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token == BotToken || token == SecondToken
}
