package e2e

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sightline/tests/fakediscord"
	"sightline/tests/fakemodel"
	"sightline/tests/fakeslack"
)

// crowd is many conversations of one platform at once. say posts with a
// picture; said are the agent's words in a conversation.
type crowd struct {
	env    []string
	say    func(conv int, text string, f file)
	said   func(conv int) []string
	faults func() []string
}

func discordCrowd(b *testing.B, n int) crowd {
	s := fakediscord.New(b)
	s.GlobalLimit = 50
	var people, channels []string
	for i := range n / 10 { // each talks in ten channels: who may read is asked by person, twice a minute
		people = append(people, s.AddUser(fmt.Sprint("user", i)))
	}
	guild := s.AddGuild(people...)
	for range n {
		channels = append(channels, s.AddChannel(guild))
	}
	return crowd{
		env: []string{"DISCORD_TOKEN=" + s.Token, "DISCORD_API_URL=" + s.URL},
		say: func(conv int, text string, f file) {
			s.Post(channels[conv], people[conv%len(people)], fakediscord.Draft{Text: "<@" + s.Bot.ID + "> " + text,
				Files: []fakediscord.File{{Name: f.name, Type: "image/png", Data: f.data}}})
		},
		said: func(conv int) (out []string) {
			for _, m := range s.Said(channels[conv]) {
				out = append(out, m.Content)
			}
			return out
		},
		faults: func() []string {
			if n := s.Held(); n > 0 {
				return []string{fmt.Sprintf("%d requests of %d were over its limit", n, len(s.Requests()))}
			}
			return s.Violations()
		},
	}
}

func slackCrowd(b *testing.B, n int) crowd {
	s, err := fakeslack.Start()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	for i := range n {
		u := fmt.Sprint("U", i)
		s.AddUser(fakeslack.User{ID: u, Team: fakeslack.Team, Name: u})
		s.AddChannel(fakeslack.Channel{ID: fmt.Sprint("D", i), IsIM: true, User: u, Members: []string{u, fakeslack.BotUser}})
	}
	return crowd{
		env: []string{"SLACK_BOT_TOKEN=" + fakeslack.BotToken, "SLACK_APP_TOKEN=" + fakeslack.AppToken, "SLACK_API_URL=" + s.URL()},
		say: func(conv int, text string, f file) {
			if _, err := s.Post(fakeslack.Message{Channel: fmt.Sprint("D", conv), User: fmt.Sprint("U", conv), Text: text,
				Files: []fakeslack.File{s.Upload(f.name, "image/png", f.data)}}); err != nil {
				b.Error(err)
			}
		},
		said: func(conv int) (out []string) {
			for _, m := range s.Messages(fmt.Sprint("D", conv), "") {
				if m.User == fakeslack.BotUser || m.BotID == fakeslack.BotID {
					out = append(out, m.Text)
				}
			}
			return out
		},
		faults: func() []string { return nil },
	}
}

// loadWords come before every tag. A picture's base64 can't hold them.
const loadWords = "look at this "

var loadTag = regexp.MustCompile(`#\d+\.\d+`)

// clock keeps when each message was posted and when the model heard of it.
type stopwatch struct {
	mu            sync.Mutex
	posted, heard map[string]time.Time
}

func (s *stopwatch) answer(r fakemodel.Request) fakemodel.Reply {
	tag := ""
	// The last of them. Searched forwards, in what is megabytes: that way is ten
	// times as fast, and this runs on the processors that are measured.
	for rest := r.Raw; ; {
		_, after, ok := bytes.Cut(rest, []byte(loadWords))
		if !ok {
			break
		}
		tag, rest = loadTag.FindString(string(after[:min(len(after), 20)])), after
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.heard[tag]; !ok {
		s.heard[tag] = time.Now()
	}
	return fakemodel.Reply{Text: fmt.Sprintf("seen %s, %d pictures", tag, bytes.Count(r.Raw, []byte(";base64,")))}
}

func (s *stopwatch) post(tag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posted[tag] = time.Now()
}

// waits are the times from event to first request, sorted.
func (s *stopwatch) waits(pick func(tag string) bool) (out []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tag, at := range s.posted {
		if h, ok := s.heard[tag]; ok && pick(tag) {
			out = append(out, h.Sub(at))
		}
	}
	slices.Sort(out)
	return out
}

// crowded has everybody speak at once, and again as soon as they are answered.
func crowded(b *testing.B, conversations, exchanges int, say func(conv, n int), answered func(conv int) bool) {
	n := make([]int, conversations)
	for conv := range n {
		n[conv] = 1
		say(conv, 1)
	}
	wait(b, "every answer", func() bool {
		waiting := 0
		for conv := range n {
			if n[conv] > exchanges {
				continue
			}
			waiting++
			if !answered(conv) {
				continue
			}
			if n[conv]++; n[conv] <= exchanges {
				say(conv, n[conv])
			}
		}
		return waiting == 0
	})
}

// BenchmarkLoad: 200 conversations on one process, pictures of 1 to 8 MiB, a
// model that takes no time. First everybody speaks at once, and again when
// they are answered. Then, paced: everybody
// speaks in turn, at a rate that leaves room, which shows what company costs
// the single message. Nothing may be lost or doubled. Shrunk: the model is of a
// kind whose limit is 3.75 MB a picture, so that the larger ones are encoded
// again; the others get them as they were posted.
func BenchmarkLoad(b *testing.B) {
	const conversations, exchanges = 200, 3
	for _, kind := range []struct {
		name   string
		make   func(*testing.B, int) crowd
		shrunk bool
	}{{"discord", discordCrowd, false}, {"slack", slackCrowd, false}, {"discord-shrunk", discordCrowd, true}} {
		b.Run(kind.name, func(b *testing.B) {
			c := kind.make(b, conversations)
			w := &stopwatch{posted: map[string]time.Time{}, heard: map[string]time.Time{}}
			m, env := fake(b, w.answer)
			m.Blind, m.Llama = true, !kind.shrunk
			p := start(b, home(b), append(append(env, c.env...), "SIGHTLINE_LOG_LEVEL=warn")...)
			var pictures [][]byte
			for i, side := range []int{590, 590, 590, 590, 590, 840, 1190, 1640} { // 1, 1, 1, 1, 1, 2, 4 and 8 MiB
				pic, _ := noise(b, side, side, uint32(i+1))
				pictures = append(pictures, pic)
			}
			want := map[int][]string{}
			say := func(conv, round int) {
				tag := fmt.Sprintf("#%d.%d", conv, round)
				want[conv] = append(want[conv], fmt.Sprintf("seen %s, 1 pictures", tag))
				pic := pictures[(conv*7+round)%len(pictures)]
				w.post(tag)
				c.say(conv, loadWords+tag, file{fmt.Sprintf("p%d-%d.png", conv, round), pic})
			}
			all := func() {
				wait(b, "every answer", func() bool {
					for conv := range want {
						if len(c.said(conv)) < len(want[conv]) {
							return false
						}
					}
					return true
				})
			}
			// One conversation by itself: what a message takes with nobody else.
			for round := range 20 {
				say(0, 1000+round)
				all()
			}
			alone := w.waits(func(string) bool { return true })
			round, pacedRound := 0, 0
			for b.Loop() {
				began, before := time.Now(), processor(b, p)
				crowded(b, conversations, exchanges, func(conv, n int) { say(conv, round+n) }, func(conv int) bool {
					said := c.said(conv)
					return len(said) == len(want[conv]) && said[len(said)-1] == want[conv][len(said)-1]
				})
				const messages = conversations * exchanges
				b.ReportMetric(messages/time.Since(began).Seconds(), "messages/s")
				reportProcessor(b, before, processor(b, p), messages)
				round += exchanges
				// Paced at half of that.
				every := 2 * time.Since(began) / messages
				round++
				pacedRound = round
				for conv := range conversations {
					say(conv, round)
					time.Sleep(every)
				}
				all()
			}
			paced := w.waits(func(tag string) bool { return strings.HasSuffix(tag, fmt.Sprint(".", pacedRound)) })
			b.ReportMetric(float64(alone[len(alone)/2].Milliseconds()), "alone-ms")
			b.ReportMetric(float64(paced[len(paced)/2])/float64(alone[len(alone)/2]), "paced/alone-p50")
			b.ReportMetric(float64(paced[len(paced)*95/100])/float64(alone[len(alone)*95/100]), "paced/alone-p95")
			time.Sleep(2 * time.Second) // what is doubled would come now
			posts := 0
			for conv, texts := range want {
				posts += len(texts)
				if said := c.said(conv); !slices.Equal(said, texts) {
					b.Errorf("conversation %d was answered %q, want %q", conv, said, texts)
				}
			}
			b.ReportMetric(resident(b, p, "VmHWM"), "peak-MB")
			if v := c.faults(); len(v) > 0 {
				b.Errorf("the platform complains: %v", v[:1])
			}
			turns(b, p, posts)
		})
	}
}

func turns(b *testing.B, p *process, want int) {
	db, err := pgx.Connect(context.Background(), p.Ready.Database)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close(context.Background())
	var answered, posts int
	if err := db.QueryRow(context.Background(), `SELECT (SELECT count(*) FROM turn WHERE state <> 'failed'), (SELECT count(*) FROM post)`).Scan(&answered, &posts); err != nil {
		b.Fatal(err)
	}
	if answered != want || posts != want {
		b.Errorf("%d turns and %d posts, want %d", answered, posts, want)
	}
}

// attachmentLine is the file name in the newest marker.
func attachmentLine(r fakemodel.Request) string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if _, rest, ok := strings.Cut(r.Messages[i].Text, "[Image #1: "); ok {
			name, _, _ := strings.Cut(rest, " (")
			return name
		}
	}
	return ""
}
