package audience

import (
	"slices"

	"sightline/tests/fakediscord"
)

// layout is what a channel's overwrites come to, said in words.
type layout int

const (
	open       layout = iota // whoever is in the server
	private                  // some, and the agent
	blinded                  // one role sees it without its history
	historyOff               // all see it, the agent alone has its history
	shut                     // some, without the agent
	layouts
)

// room is a channel, or a thread below one.
type room struct {
	id     string
	kind   layout   // of a channel
	some   []string // who is meant by private and shut
	parent *room    // of a thread
	inside []string // who is in a private thread; nil: a public one
}

func (r *room) top() *room {
	if r.parent != nil {
		return r.parent
	}
	return r
}

// people is the server as the oracle has it.
type people struct {
	bot, owner string
	all        []string
	absent     map[string]bool
	blind      string // has the role that blinded denies the history
	// forgetful: @everyone has no history by its role.
	forgetful bool
}

func (p *people) in(u string) bool { return u == p.owner || u == p.bot || !p.absent[u] }

func (p *people) sees(u string, r *room) bool {
	if !p.in(u) {
		return false
	}
	if u == p.owner {
		return true
	}
	c := r.top()
	switch c.kind {
	case private:
		if u != p.bot && !slices.Contains(c.some, u) {
			return false
		}
	case shut:
		if !slices.Contains(c.some, u) {
			return false
		}
	}
	return r.inside == nil || slices.Contains(r.inside, u)
}

// recalls: u can open what was posted before.
func (p *people) recalls(u string, r *room) bool {
	if !p.sees(u, r) {
		return false
	}
	if u == p.owner {
		return true
	}
	c := r.top()
	named := (c.kind == private || c.kind == shut) && (u == p.bot || slices.Contains(c.some, u)) || c.kind == historyOff && u == p.bot
	switch {
	case named:
		return true // an overwrite of their own gives it
	case p.forgetful, c.kind == historyOff:
		return false
	case c.kind == blinded:
		return u != p.blind
	}
	return true
}

// within: everybody who reads dst can open what src holds.
func (p *people) within(dst, src *room) bool {
	for _, u := range append([]string{p.owner}, p.all...) {
		if p.sees(u, dst) && !p.recalls(u, src) {
			return false
		}
	}
	return true
}

// known: dst may know of what src holds, as a whole. Another channel's is
// another conversation's.
func (p *people) known(dst, src *room) bool { return dst.top() == src.top() && p.within(dst, src) }

const reads = fakediscord.ViewChannel | fakediscord.ReadMessageHistory | fakediscord.SendMessages | fakediscord.SendMessagesInThreads

// overwrites are the layout in the platform's terms.
func (r *room) overwrites(guild, blindRole, bot string) []fakediscord.Overwrite {
	agent := fakediscord.Member(bot, reads, 0)
	switch r.kind {
	case private, shut:
		list := []fakediscord.Overwrite{fakediscord.Deny(guild, fakediscord.ViewChannel)}
		for _, u := range r.some {
			list = append(list, fakediscord.Member(u, reads, 0))
		}
		if r.kind == private {
			list = append(list, agent)
		}
		return list
	case blinded:
		return []fakediscord.Overwrite{fakediscord.Deny(blindRole, fakediscord.ReadMessageHistory)}
	case historyOff:
		return []fakediscord.Overwrite{fakediscord.Deny(guild, fakediscord.ReadMessageHistory), agent}
	}
	return nil
}
