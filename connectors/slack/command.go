package slack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"sightline/connectors/chat"
)

const (
	commandTimeout = 5 * time.Minute
	maxResponses   = 5 // that a response URL takes
)

// slash is a slash command as Slack sends it.
type slash struct {
	Command     string `json:"command"`
	Text        string `json:"text"`
	User        string `json:"user_id"`
	Name        string `json:"user_name"`
	Team        string `json:"team_id"`
	Channel     string `json:"channel_id"`
	ResponseURL string `json:"response_url"`
}

// forgetMenu is the callback of the manifest's shortcut: a command in a message's
// own menu, where nobody has to copy its link.
const forgetMenu = "forget_message"

var isTS = regexp.MustCompile(`^\d+\.\d{6}$`)

// menuCommand reads what somebody chose in a message's menu as the command that
// it stands for.
func menuCommand(raw []byte) (slash, bool) {
	var c struct {
		Type        string `json:"type"`
		Callback    string `json:"callback_id"`
		ResponseURL string `json:"response_url"`
		TS          string `json:"message_ts"`
		Channel     struct {
			ID string `json:"id"`
		} `json:"channel"`
		Team struct {
			ID string `json:"id"`
		} `json:"team"`
		User struct {
			ID   string `json:"id"`
			Name string `json:"name"`
			Team string `json:"team_id"`
		} `json:"user"`
	}
	if json.Unmarshal(raw, &c) != nil || c.Type != "message_action" || c.Callback != forgetMenu || !isTS.MatchString(c.TS) {
		return slash{}, false // nothing else of this app can be clicked
	}
	if c.User.Team == "" {
		c.User.Team = c.Team.ID
	}
	return slash{
		Command: forgetMenu, Text: "forget " + c.TS, User: c.User.ID, Name: c.User.Name, Team: c.User.Team,
		Channel: c.Channel.ID, ResponseURL: c.ResponseURL,
	}, true
}

// command is the first of three doors: whoever is not an owner gets one line,
// and the operators get to know.
func (b *Bot) command(ctx context.Context, s slash) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	text, err := b.answer(ctx, s)
	if err != nil {
		b.log.Warn("a command failed", "command", s.Command, "error", err)
		text = "That did not work; the operators' log says why."
	}
	if err := b.respond(ctx, s.ResponseURL, text); err != nil {
		b.log.Warn("the answer to a command could not be given", "command", s.Command, "error", err)
	}
}

func (b *Bot) answer(ctx context.Context, s slash) (string, error) {
	self, err := b.me(ctx)
	if err != nil {
		return "", err
	}
	a := chat.Actor{Platform: Platform, Workspace: s.Team, User: s.User, Name: s.Name, Role: b.role(self, s.Team, s.User, false)}
	if a.Role != chat.Owner {
		b.log.Warn("a command of somebody who is no owner was refused", "team", s.Team, "user", s.User, "command", s.Text)
		return "Only an owner of this agent may give it commands.", nil
	}
	if b.c.Commander == nil {
		return "This agent takes no commands here.", nil
	}
	channel := b.facts.canonical(s.Channel)
	info, err := b.facts.get(ctx, channel, kindAge)
	if codeOf(err) == "channel_not_found" {
		info, err = channelInfo{}, nil // a command works where the agent is not
	}
	if err != nil {
		return "", err
	}
	c := chat.Command{Agent: b.c.Agent, Actor: a, Place: b.place(self, channel, "", info), Name: "help"}
	if words := strings.Fields(s.Text); len(words) > 0 {
		c.Name, c.Args = strings.ToLower(words[0]), words[1:]
	}
	if c.Name == "forget" && len(c.Args) > 0 {
		c.Args[0] = b.nativeMessage(c.Args[0], channel)
	}
	text, err := b.c.Commander.Command(ctx, c)
	if err == nil && !info.IsIM && !info.IsMember {
		text = strings.TrimSpace(text + "\n\n" + notHere)
	}
	return text, err
}

// notHere: Slack takes commands in channels that the agent is not in, and an
// owner who sees it answer would take it for there.
const notHere = "The agent is not in this channel and hears nothing here until somebody invites it."

var messageLink = regexp.MustCompile(`^https://[a-z0-9.-]+\.slack(?:-gov)?\.com/archives/([A-Z0-9]+)/p(\d+)(\d{6})(?:\?.*)?$`)

// nativeMessage is the ts in a link to a message of the channel; anything else
// stays as it is. Slack shows nobody a ts, and lets everybody copy the link.
func (b *Bot) nativeMessage(arg, channel string) string {
	m := messageLink.FindStringSubmatch(strings.Trim(arg, "<>"))
	if m == nil || b.facts.canonical(m[1]) != channel {
		return arg
	}
	return m[2] + "." + m[3]
}

// respond answers to the one who asked, through the URL that Slack gave for
// it. The token is not sent along.
func (b *Bot) respond(ctx context.Context, to, text string) error {
	u, err := url.Parse(to)
	if err != nil || !b.hosts.response(u) {
		return errors.New("slack: the response address is not Slack's")
	}
	if strings.TrimSpace(text) == "" {
		text = "Done."
	}
	parts := split(inert(text), maxBlock-2)
	if len(parts) > maxResponses {
		parts = parts[:maxResponses]
		parts[maxResponses-1] += "\n…"
	}
	for _, part := range parts {
		body, err := json.Marshal(map[string]any{
			"response_type": "ephemeral", "text": notice(part), "unfurl_links": false, "unfurl_media": false,
			"blocks": []map[string]string{{"type": "markdown", "text": part}},
		})
		if err != nil {
			return fmt.Errorf("slack: answer command: %w", err)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
		if err != nil {
			return errors.New("slack: answer command: the request could not be made")
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := b.api.http.Do(req)
		if err != nil {
			return fmt.Errorf("slack: answer command: %w", bare(err))
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("slack: answer command: status %d", res.StatusCode)
		}
	}
	return nil
}
