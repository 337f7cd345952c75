package service

import (
	"net"
	"sync"
)

// reopening is a listener on an address that is taken only while this process
// is the one to answer there. Whoever connects to a process that stands by is
// refused, which is what proxies go by.
type reopening struct {
	addr string

	mu sync.Mutex
	l  net.Listener // nil: closed
	at net.Addr     // of the last one
}

var _ net.Listener = (*reopening)(nil)

// open takes the address, unless it is taken here already.
func (r *reopening) open() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.l != nil {
		return nil
	}
	l, err := net.Listen("tcp", r.addr)
	if err != nil {
		return err
	}
	r.l, r.at = l, l.Addr()
	return nil
}

func (r *reopening) Accept() (net.Conn, error) {
	r.mu.Lock()
	l := r.l
	r.mu.Unlock()
	if l == nil {
		return nil, net.ErrClosed
	}
	return l.Accept()
}

func (r *reopening) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.l
	if r.l = nil; l == nil {
		return nil
	}
	return l.Close()
}

// Addr is where it listens, did last, or would.
func (r *reopening) Addr() net.Addr {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil {
		return named(r.addr)
	}
	return r.at
}

// named is an address that nothing listens on yet.
type named string

func (named) Network() string  { return "tcp" }
func (n named) String() string { return string(n) }
