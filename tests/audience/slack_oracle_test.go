package audience

import (
	"slices"
	"sync"
)

// person is somebody of the workspace, a guest in it, or of another team.
type person struct {
	id              string
	guest, stranger bool
	gone            bool // deactivated
}

// channel is a conversation of any kind, under the ID that it was born with.
type channel struct {
	id, now          string
	between          []string // the IDs that it had since
	private          bool     // direct and group messages are, too
	direct, group    bool
	shared, archived bool
	in               map[string]bool // its members, the agent among them or not
}

// words is a message.
type words struct {
	at         *channel
	ts, thread string
	author     string
	files      []string // also those that it forwards
	deleted    bool
	rev        int  // raised by every change
	heard      int  // the newest that the agent was told of, which it may be about to record
	settled    int  // the newest that it has recorded
	recorded   bool // the agent has rows of it
	told       int  // the newest that was told at once
	late       bool // what became of it is under way
}

// office is the workspace as the oracle has it.
type office struct {
	bot      string
	people   []*person
	channels []*channel

	mu       sync.Mutex // the agent is told while the test goes on
	messages map[string]*words
	lost     map[string]bool // files that are deleted or hidden
}

func (o *office) person(id string) *person {
	if n := slices.IndexFunc(o.people, func(p *person) bool { return p.id == id }); n >= 0 {
		return o.people[n]
	}
	return nil
}

// channel finds one by any ID that it ever had.
func (o *office) channel(id string) *channel {
	n := slices.IndexFunc(o.channels, func(c *channel) bool { return c.id == id || slices.Contains(c.between, id) })
	if n < 0 {
		return nil
	}
	return o.channels[n]
}

// opens: u can read what is in c, at this moment. A public channel is open to
// the full members of the workspace, whether they are in it or not; guests and
// other teams read what they are in.
func (o *office) opens(u string, c *channel) bool {
	p := o.person(u)
	switch {
	case u == o.bot:
		return c.in[u]
	case p == nil || p.gone:
		return false
	case c.in[u]:
		return true
	}
	return !c.private && !p.guest && !p.stranger
}

// within: everybody who reads dst can open what src holds.
func (o *office) within(dst, src *channel) bool {
	for _, p := range o.people {
		if o.opens(p.id, dst) && !o.opens(p.id, src) {
			return false
		}
	}
	return true
}

// known: who asks in dst may hear, with all who read it, of what src holds as
// a whole. Another channel's is another conversation's; its threads are not.
func (o *office) known(asker string, dst, src *channel) bool {
	return dst == src && o.within(dst, src) && o.opens(asker, dst) && o.opens(o.bot, src)
}

// there: the message is on the platform with the file, and the file can be had.
func (o *office) there(m *words, file string) bool {
	return !m.deleted && slices.Contains(m.files, file) && !o.lost[file]
}

// allowed is the whole rule: for whoever asks in dst, the bytes of a file of m.
func (o *office) allowed(asker string, dst *channel, m *words, file string) bool {
	return o.known(asker, dst, m.at) && o.there(m, file) && !o.behind(m)
}

// behind: the message is of another revision than the one that was recorded.
func (o *office) behind(m *words) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return m.heard < m.rev
}

// tell notes that the agent was told what became of a message.
func (o *office) tell(ts string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if m := o.messages[ts]; m != nil {
		m.heard = m.rev
	}
}

// settle notes that what the agent was told is recorded.
func (o *office) settle(m *words) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m.settled = m.heard
}

func (o *office) changed(m *words) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m.rev++
}
