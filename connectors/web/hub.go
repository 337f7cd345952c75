package web

import (
	"sync"

	"sightline/connectors/chat"
)

// hub wakes those who listen to a conversation. It carries no messages: a
// listener reads those from the database, so a slow one makes nothing grow
// and a lost wake-up loses nothing.
type hub struct {
	mu       sync.Mutex
	rooms    map[string]*room // by conversation; only those with listeners or news
	finished [64]chat.TurnID  // turns that have their reply: late progress is no news
	next     int
}

type room struct {
	listeners map[*listener]struct{}
	progress  *chat.Progress // of the turn that runs now
}

// listener is one open stream.
type listener struct {
	hub  *hub
	conv string
	wake chan struct{} // holds at most one

	dirty    bool           // the database has something new
	progress *chat.Progress // the latest that was not taken yet
}

func newHub() *hub { return &hub{rooms: map[string]*room{}} }

func (h *hub) listen(conv string) *listener {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.room(conv)
	l := &listener{hub: h, conv: conv, wake: make(chan struct{}, 1), progress: r.progress}
	r.listeners[l] = struct{}{}
	return l
}

func (l *listener) close() {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	if r := l.hub.rooms[l.conv]; r != nil {
		delete(r.listeners, l)
		l.hub.tidy(l.conv)
	}
}

// take returns the news since the last call.
func (l *listener) take() (dirty bool, pr *chat.Progress) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	dirty, pr = l.dirty, l.progress
	l.dirty, l.progress = false, nil
	return dirty, pr
}

// changed says that the conversation's rows changed; turn, if any, has its
// reply now.
func (h *hub) changed(conv string, turn chat.TurnID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if turn != "" {
		h.finished[h.next%len(h.finished)] = turn
		h.next++
	}
	r := h.rooms[conv]
	if r == nil {
		return
	}
	if r.progress != nil && r.progress.Turn == turn {
		r.progress = nil
	}
	for l := range r.listeners {
		l.dirty = true
		if l.progress != nil && l.progress.Turn == turn {
			l.progress = nil
		}
		l.poke()
	}
	h.tidy(conv)
}

// opened says that a conversation was opened: whoever listens to any other
// looks for it.
func (h *hub) opened() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.rooms {
		for l := range r.listeners {
			l.dirty = true
			l.poke()
		}
	}
}

func (h *hub) progress(pr chat.Progress) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.finished {
		if t == pr.Turn && t != "" {
			return
		}
	}
	r := h.room(pr.Place.Channel)
	r.progress = &pr
	for l := range r.listeners {
		l.progress = &pr
		l.poke()
	}
}

func (l *listener) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (h *hub) room(conv string) *room {
	r := h.rooms[conv]
	if r == nil {
		r = &room{listeners: map[*listener]struct{}{}}
		h.rooms[conv] = r
	}
	return r
}

func (h *hub) tidy(conv string) {
	if r := h.rooms[conv]; r != nil && len(r.listeners) == 0 && r.progress == nil {
		delete(h.rooms, conv)
	}
}
