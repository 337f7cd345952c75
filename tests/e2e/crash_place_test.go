package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sightline/connectors/web"
	"sightline/sandbox"
	"sightline/tests/fakediscord"
	"sightline/tests/fakeslack"
)

// A crashPlace is a platform on which a conversation is opened for each kill.
type crashPlace struct {
	name string
	env  []string
	open func(p *process, name string) dialog
	// faults is what the platform would complain of.
	faults func() []string
}

// A dialog is one person's conversation with the agent, which outlasts the
// process.
type dialog struct {
	// say returns at once, and what deletes the message.
	say func(text string, files ...file) (remove func())
	// said are the agent's words as they are now; shared, the files that it
	// posted.
	said, shared func() []string
}

var crashPlaces = []func(*testing.T) crashPlace{discordCrashes, slackCrashes, webCrashes}

func discordCrashes(t *testing.T) crashPlace {
	return discordCrashesOn(t, func(*fakediscord.Server) {})
}

func slackCrashes(t *testing.T) crashPlace { return slackCrashesOn(t, func(*fakeslack.Server) {}) }

func discordCrashesOn(t *testing.T, set func(*fakediscord.Server)) crashPlace {
	s := fakediscord.New(t)
	set(s)
	ann := s.AddUser("ann")
	guild := s.AddGuild(ann)
	return crashPlace{
		name: "discord", env: []string{"DISCORD_TOKEN=" + s.Token, "DISCORD_API_URL=" + s.URL}, faults: s.Violations,
		open: func(*process, string) dialog {
			channel := s.AddChannel(guild)
			return dialog{
				say: func(text string, files ...file) func() {
					d := fakediscord.Draft{Text: "<@" + s.Bot.ID + "> " + text}
					for _, f := range files {
						d.Files = append(d.Files, fakediscord.File{Name: f.name, Type: "image/png", Data: f.data})
					}
					m := s.Post(channel, ann, d)
					return func() { s.Delete(m) }
				},
				said: func() (out []string) {
					for _, m := range s.Said(channel) {
						if m.Content != "" {
							out = append(out, m.Content)
						}
					}
					return out
				},
				shared: func() (out []string) {
					for _, m := range s.Said(channel) {
						for _, a := range m.Attachments {
							out = append(out, string(s.Data(a)))
						}
					}
					return out
				},
			}
		},
	}
}

func slackCrashesOn(t *testing.T, set func(*fakeslack.Server)) crashPlace {
	s, err := fakeslack.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	set(s)
	s.AddUser(fakeslack.User{ID: "U1", Team: fakeslack.Team, Name: "ann"})
	s.AddChannel(fakeslack.Channel{ID: "C1", IsChannel: true, Members: []string{"U1", fakeslack.BotUser}})
	return crashPlace{
		name: "slack", faults: func() []string { return nil },
		env: []string{"SLACK_BOT_TOKEN=" + fakeslack.BotToken, "SLACK_APP_TOKEN=" + fakeslack.AppToken, "SLACK_API_URL=" + s.URL()},
		open: func(*process, string) dialog {
			root := s.Store(fakeslack.Message{Channel: "C1", User: "U1", Text: "a thread"})
			own := func() (out []fakeslack.Message) {
				for _, m := range s.Messages("C1", root.TS) {
					if m.User == fakeslack.BotUser {
						out = append(out, m)
					}
				}
				return out
			}
			return dialog{
				say: func(text string, files ...file) func() {
					m := fakeslack.Message{Channel: "C1", ThreadTS: root.TS, User: "U1", Text: "<@" + fakeslack.BotUser + "> " + text}
					for _, f := range files {
						m.Files = append(m.Files, s.Upload(f.name, "image/png", f.data))
					}
					m, err := s.Post(m)
					if err != nil {
						t.Error(err)
					}
					return func() { _ = s.Delete(m.Channel, m.TS) }
				},
				said: func() (out []string) {
					for _, m := range own() {
						if m.Text != "" {
							out = append(out, m.Text)
						}
					}
					return out
				},
				shared: func() (out []string) {
					for _, m := range own() {
						for _, f := range m.Files {
							out = append(out, string(f.Data))
						}
					}
					return out
				},
			}
		},
	}
}

// webCrashes asks with the product's own client, which goes on asking while
// the process is away. What was said is read from the place's rows.
func webCrashes(t *testing.T) crashPlace {
	return crashPlace{
		name: "web", faults: func() []string { return nil },
		open: func(p *process, name string) dialog {
			client, database := p.Client, p.Ready.Database
			rows := func(sql string) []string {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				db, err := pgx.Connect(ctx, database)
				if err != nil {
					return nil
				}
				defer db.Close(ctx)
				r, err := db.Query(ctx, sql, name)
				if err != nil {
					return nil
				}
				out, _ := pgx.CollectRows(r, pgx.RowTo[string])
				return out
			}
			const own = ` FROM web_message m JOIN web_conversation c ON c.id = m.conversation `
			return dialog{
				say: func(text string, files ...file) func() {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					sent := make(chan web.Sent, 1)
					var conv web.Conversation
					go func() {
						defer cancel()
						defer close(sent)
						var err error
						if conv, err = client.Conversation(ctx, name); err != nil {
							t.Errorf("%s: open: %v", name, err)
							return
						}
						d := web.Draft{Key: web.NewKey(), Text: text}
						for _, f := range files {
							u, err := client.Upload(ctx, conv.ID, f.name, f.data)
							if err != nil {
								t.Errorf("%s: upload: %v", name, err)
								return
							}
							d.Uploads = append(d.Uploads, u.ID)
						}
						s, err := client.Send(ctx, conv.ID, d)
						if err != nil {
							t.Errorf("%s: send: %v", name, err)
							return
						}
						sent <- s
					}()
					return func() {
						if s, ok := <-sent; ok {
							if err := client.Delete(context.Background(), conv.ID, s.Message); err != nil {
								t.Errorf("%s: delete: %v", name, err)
							}
						}
					}
				},
				said: func() []string {
					return rows(`SELECT m.text` + own + `WHERE c.name = $1 AND m.kind <> 'person' AND m.text <> '' ORDER BY m.seq`)
				},
				shared: func() (out []string) {
					// Their bytes are files; the effect itself is counted in the workspace.
					for _, n := range rows(`SELECT u.name` + own + `JOIN web_upload u ON u.message = m.id WHERE c.name = $1 AND m.kind <> 'person'`) {
						out = append(out, strings.TrimSuffix(n, ".txt"))
					}
					return out
				},
			}
		},
	}
}

// sandboxed skips where no command can be confined.
func sandboxed(t *testing.T) {
	t.Helper()
	r, err := sandbox.New(t.Context(), sandbox.Config{Root: filepath.Join(openHome(t), "workspaces"), Driver: sandbox.Bubblewrap})
	var missing *sandbox.Unavailable
	switch {
	case err == nil:
		_ = r.Close()
	case errors.As(err, &missing) && os.Getenv("SIGHTLINE_NO_SKIP") != "1":
		t.Skipf("this test needs bubblewrap: %v; %s (set SIGHTLINE_NO_SKIP=1 to fail instead)", err, missing.Fix)
	default:
		t.Fatal(err)
	}
}

// openHome is one that the user of confined commands may enter.
func openHome(t *testing.T) string {
	t.Helper()
	dir := home(t)
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}
