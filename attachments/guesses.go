package attachments

import "time"

const (
	guessWindow = 10 * time.Minute
	// guessSpread is how many times its limit in one conversation a person may
	// reach in all of them: whoever can open threads has conversations enough.
	guessSpread = 5
)

// guesser names who guesses, where, and everywhere. Most of the limit is of
// one conversation, so that a text which makes a model name what does not
// exist can't take everything from whoever had it read.
func guesser(r Request) (here, anywhere string) {
	anywhere = string(r.Agent) + "\x00" + string(r.Actor.Platform) + "\x00" + r.Actor.Workspace + "\x00" + r.Actor.User
	return anywhere + "\x00" + string(r.Conversation), anywhere
}

func (a *Authorizer) guessed(r Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.c.Now()
	here, anywhere := guesser(r)
	for _, k := range []string{here, anywhere} {
		a.guesses[k] = append(a.recent(k), now)
	}
}

func (a *Authorizer) tooManyGuesses(r Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	here, anywhere := guesser(r)
	return len(a.recent(here)) >= a.c.Guesses || len(a.recent(anywhere)) >= guessSpread*a.c.Guesses
}

// recent drops what is over. The caller holds mu.
func (a *Authorizer) recent(k string) []time.Time {
	g := a.guesses[k]
	for len(g) > 0 && a.c.Now().Sub(g[0]) > guessWindow {
		g = g[1:]
	}
	if len(g) == 0 {
		delete(a.guesses, k)
	} else {
		a.guesses[k] = g
	}
	return g
}
