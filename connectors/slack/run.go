package slack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// AuthError ends Run: asking again would not help.
type AuthError struct {
	Token string // "bot" or "app"
	Code  string // Slack's word
}

func (e *AuthError) Error() string {
	if e.Token == "app" {
		return fmt.Sprintf("slack: the app-level token (xapp-...) is refused: %s; make one with the scope connections:write under Basic Information", e.Code)
	}
	return fmt.Sprintf("slack: the bot token (xoxb-...) is refused: %s; install the app again and copy its bot token", e.Code)
}

var refusals = []string{
	"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type",
	"org_login_required", "missing_scope", "user_removed_from_team", "team_access_not_granted",
}

// Run takes events until ctx ends, or until Slack refuses a token for good. It
// may be called again then: in between, another process may have taken them.
func (b *Bot) Run(ctx context.Context) error {
	b.begun.Store(false)
	b.threads.leaveOpen()
	defer b.facts.drop("")
	ctx, cancel := context.WithCancel(ctx)
	defer b.queue.wg.Wait()
	defer b.running.Wait()
	defer cancel()
	self, err := b.signIn(ctx)
	if err != nil {
		return err
	}
	for _, s := range missing(self.scopes) {
		b.log.Warn("the bot token lacks a scope", "scope", s.name, "without", s.without, "fix", s.fix())
		if b.c.Missing != nil {
			b.c.Missing("slack scope "+s.name+": it is missing: "+s.without, s.fix())
		}
	}
	for pause := b.redial; ; pause = min(2*pause, time.Minute) {
		err := b.resume(ctx)
		if err == nil {
			break
		}
		b.log.Warn("the store does not say how far events were taken; it is asked again", "error", err)
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
	if b.c.EventsListener != nil {
		return b.serve(ctx)
	}
	return b.sockets(ctx)
}

// signIn waits for a Slack that can't be reached.
func (b *Bot) signIn(ctx context.Context) (identity, error) {
	for pause := b.redial; ; pause = min(2*pause, time.Minute) {
		self, err := b.me(ctx)
		if err == nil {
			return self, nil
		}
		if code := codeOf(err); slices.Contains(refusals, code) {
			return identity{}, &AuthError{Token: "bot", Code: code}
		}
		if ctx.Err() != nil {
			return identity{}, ctx.Err()
		}
		b.log.Warn("slack can't be reached; it is tried again", "error", err)
		if err := sleep(ctx, pause); err != nil {
			return identity{}, err
		}
	}
}

// maxSkew is beyond what a Date of whole seconds and a slow network explain,
// and well within the five minutes after which signed requests are refused.
const maxSkew = 30 * time.Second

type scope struct{ name, without string }

func (s scope) fix() string {
	return "Add " + s.name + " under OAuth & Permissions, then install the app again."
}

var scopes = []scope{
	{"app_mentions:read", "mentions are not heard"},
	{"channels:history", "messages of public channels can't be read"}, {"channels:read", "public channels can't be looked up"},
	{"groups:history", "messages of private channels can't be read"}, {"groups:read", "private channels can't be looked up"},
	{"im:history", "direct messages can't be read"}, {"im:read", "direct messages can't be looked up"},
	{"mpim:history", "group direct messages can't be read"}, {"mpim:read", "group direct messages can't be looked up"},
	{"users:read", "people have no names, and nothing that they ask about can be opened"}, {"files:read", "no picture or document can be opened"}, {"files:write", "no file can go with an answer"},
	{"chat:write", "nothing can be answered"}, {"commands", "the slash command is not heard"},
}

// missing compares with the header that comes with every answer. Without the
// header nothing is known to be missing.
func missing(have string) (out []scope) {
	if have == "" {
		return nil
	}
	list := strings.FieldsFunc(have, func(r rune) bool { return r == ',' || r == ' ' })
	for _, s := range scopes {
		if !slices.Contains(list, s.name) {
			out = append(out, s)
		}
	}
	return out
}

// reads says whether files may be read, as far as Slack says it.
func (s identity) reads() bool {
	return !slices.ContainsFunc(missing(s.scopes), func(s scope) bool { return s.name == "files:read" })
}

// Finding is one thing that was checked.
type Finding struct {
	Name string
	OK   bool
	Text string // what is so
	Fix  string // one sentence, if it is not OK
}

// Check asks Slack what a newcomer may have left out.
func (b *Bot) Check(ctx context.Context) []Finding {
	var out []Finding
	// Asked anew: a token may have been revoked, or its app installed again,
	// since the bot has learned who it is.
	self, err := b.whoAmI(ctx)
	switch code := codeOf(err); {
	case err == nil:
		out = append(out, Finding{Name: "bot token", OK: true, Text: "the bot is user " + self.User + " of team " + self.Team})
	case slices.Contains(refusals, code) && strings.HasPrefix(b.c.BotToken, "xapp-"):
		return append(out, Finding{Name: "bot token", Text: "it is an app-level token (xapp-...)", Fix: "Take the Bot User OAuth Token (xoxb-...) of OAuth & Permissions, and the app-level one as SLACK_APP_TOKEN."})
	case slices.Contains(refusals, code):
		return append(out, Finding{Name: "bot token", Text: "Slack refuses it: " + code, Fix: "Install the app to the workspace again and copy its bot token (xoxb-...)."})
	default:
		return append(out, Finding{Name: "reachability", Text: err.Error(), Fix: "Make sure that this machine reaches Slack's Web API."})
	}
	lack := missing(self.scopes)
	for _, s := range lack {
		out = append(out, Finding{Name: "scope " + s.name, Text: "it is missing: " + s.without, Fix: s.fix()})
	}
	switch {
	case self.scopes == "":
		out = append(out, Finding{Name: "scopes", Text: "Slack does not say which the token has", Fix: "Compare the app's scopes with those of the README."})
	case len(lack) == 0:
		out = append(out, Finding{Name: "scopes", OK: true, Text: "all that are needed"})
	}
	if len(b.owners) == 0 {
		out = append(out, Finding{Name: "owners", Text: "nobody may give commands", Fix: "Name an owner in SIGHTLINE_OWNERS, or the agent's owners in sightline.yaml, as slack:" + self.Team + "/USER, with the member ID of a Slack profile."})
	}
	clock := Finding{Name: "clock", OK: self.skew.Abs() <= maxSkew, Text: self.skew.Abs().Round(time.Second).String() + " from Slack's"}
	if !clock.OK {
		clock.Fix = "Synchronize the clock of this machine."
	}
	out = append(out, clock)
	if b.c.EventsListener != nil {
		return append(out, Finding{Name: "events", OK: true, Text: "signed requests on " + b.c.EventsListener.Addr().String()})
	}
	_, err = b.api.retry(ctx, b.c.AppToken, "apps.connections.open", nil, nil, true)
	switch code := codeOf(err); {
	case err == nil:
		out = append(out, Finding{Name: "socket mode", OK: true, Text: "a connection may be opened"})
	case slices.Contains(refusals, code):
		out = append(out, Finding{Name: "app token", Text: "Slack refuses it: " + code, Fix: "Make an app-level token (xapp-...) with the scope connections:write under Basic Information."})
	case code == "" || strings.HasPrefix(code, "http_"):
		out = append(out, Finding{Name: "reachability", Text: err.Error(), Fix: "Make sure that this machine reaches Slack's Web API."})
	default:
		out = append(out, Finding{Name: "socket mode", Text: err.Error(), Fix: "Switch Socket Mode on in the app's settings."})
	}
	return out
}
