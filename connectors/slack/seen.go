package slack

import (
	"slices"
	"sync"
	"time"

	"sightline/connectors/chat"
)

// record is what is remembered of one message: that it came, and that it was
// there at some time. It is a memory, bounded and lost with the process; what
// must last is in the store.
type record struct {
	channel, ts string
	revision    string
	text        string
	events      []chat.Event   // as last delivered, one for each place; none: it was nobody's business
	asked       []chat.PlaceID // where it was delivered as words to the agent
	stopped     bool           // it was an owner's word that ended a turn
	deleted     bool           // and delivered as that, in all its places
	gone        bool           // deleted, whether that was delivered yet or not
	live        time.Time      // when it was last known to be there
	generation  int
}

// in is the message as a place has it. The first message of a thread in a
// direct message is in two.
func (r *record) in(p chat.PlaceID) (chat.Event, bool) {
	for _, e := range r.events {
		if e.Place.ID == p {
			return e, true
		}
	}
	return chat.Event{}, false
}

// with is the record after another delivery.
func (r record) with(e chat.Event) record {
	events := []chat.Event{e}
	for _, o := range r.events {
		if o.Place.ID != e.Place.ID {
			events = append(events, o)
		}
	}
	r.events = events
	return r
}

// seen remembers messages by channel and ts, by their ID, and by their files.
type seen struct {
	max int

	mu         sync.Mutex
	m          map[string]*record
	order      []string
	ids        map[chat.MessageID]*record
	files      map[string][]*record
	marks      map[string]string // channel -> newest ts that came from it
	generation int               // raised when deletions may have been missed
	hearing    int               // connections that tell of them
}

func newSeen(max int) *seen {
	return &seen{
		max: max, m: map[string]*record{}, ids: map[chat.MessageID]*record{}, files: map[string][]*record{}, marks: map[string]string{},
	}
}

func messageKey(channel, ts string) string { return channel + "/" + ts }

func (s *seen) get(channel, ts string) (record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.m[messageKey(channel, ts)]; r != nil {
		return *r, true
	}
	return record{}, false
}

func (s *seen) byID(id chat.MessageID) (record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.ids[id]; r != nil {
		return *r, true
	}
	return record{}, false
}

// keep replaces what is remembered of a message. Deleted stays deleted.
func (s *seen) keep(r record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepLocked(r)
}

func (s *seen) keepLocked(r record) {
	k := messageKey(r.channel, r.ts)
	if old := s.m[k]; old != nil {
		r.deleted, r.gone = r.deleted || old.deleted, r.gone || old.gone
		s.forget(old)
	} else {
		s.order = append(s.order, k)
	}
	r.generation = s.generation
	p := &r
	s.m[k] = p
	s.index(p)
	for len(s.order) > s.max {
		if old := s.m[s.order[0]]; old != nil {
			s.forget(old)
			delete(s.m, s.order[0])
		}
		s.order = s.order[1:]
	}
}

func (s *seen) index(r *record) {
	for _, e := range r.events {
		s.ids[e.Message.ID] = r
		for _, f := range e.Files {
			if !slices.Contains(s.files[f.NativeID], r) {
				s.files[f.NativeID] = append(s.files[f.NativeID], r)
			}
		}
	}
}

// reread notes that a message was there when it was read, unless events may
// have been lost since the reading began: what it showed is old then.
func (s *seen) reread(r record, generation int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.generation == generation {
		s.keepLocked(r)
	}
}

// restore takes back a keep of something that was not delivered after all.
// That a message is gone is not taken back.
func (s *seen) restore(before record, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := messageKey(before.channel, before.ts)
	now := s.m[k]
	if now == nil {
		return
	}
	s.forget(now)
	if !known && !now.gone {
		delete(s.m, k)
		return
	}
	before.gone = before.gone || now.gone
	s.m[k] = &before
	s.index(&before)
}

func (s *seen) forget(r *record) {
	for _, e := range r.events {
		if s.ids[e.Message.ID] == r {
			delete(s.ids, e.Message.ID)
		}
		for _, f := range e.Files {
			rest := slices.DeleteFunc(slices.Clone(s.files[f.NativeID]), func(o *record) bool { return o == r })
			if s.files[f.NativeID] = rest; len(rest) == 0 {
				delete(s.files, f.NativeID)
			}
		}
	}
}

func (s *seen) withFile(id string) (out []record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.files[id] {
		out = append(out, *r)
	}
	return out
}

// mark notes how far a channel has come. A ts sorts as a string: its seconds
// have had ten digits since 2001.
func (s *seen) mark(channel, ts string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ts > s.marks[channel] {
		s.marks[channel] = ts
	}
}

func (s *seen) hasMark(channel string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.marks[channel] != ""
}

func (s *seen) marked() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]string, len(s.marks))
	for c, ts := range s.marks {
		out[c] = ts
	}
	return out
}

// missed says that events may have been lost: what was there may be gone.
func (s *seen) missed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
}

func (s *seen) now() (generation int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generation
}

// hears counts the connections that bring events. Without one they go to
// another process, or to nobody. Whoever connects says missed before.
func (s *seen) hears(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if yes {
		s.hearing++
	} else {
		s.hearing--
	}
}

// current: whatever became of what was known then was told.
func (s *seen) current(generation int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hearing > 0 && s.generation == generation
}
