package slack

import (
	"testing"
	"time"

	"sightline/tests/fakeslack"
)

// slack-go closes a connection before it opens the next one: with a single one
// there would be nobody to hear in between.
func TestOneSocketStays(t *testing.T) {
	s := open(t, nil).run()
	s.eventually("both sockets are open", func() bool { return s.fake.Hellos() == 2 })
	s.fake.RefuseLinks(1_000_000)
	s.fake.DropOneSocket()
	// Sent once: whoever is not there does not hear of it.
	s.fake.RetryEvery(time.Hour)
	for range 10 {
		m := s.fake.Store(fakeslack.Message{Channel: "D1", User: "U1", Text: "x"})
		s.must(s.fake.Emit(s.fake.EventsOf(m)[0]))
		if e := s.event(); e.Message.NativeID != m.TS {
			t.Fatalf("%+v", e)
		}
	}
	if n := s.fake.Hellos(); n != 2 {
		t.Errorf("%d connections were opened", n)
	}
}

// slack-go reads nothing, pings neither, while 50 events wait for whoever
// takes them. However long deliveries take, that is not this package.
func TestSlowDeliveryHoldsUpNoSocket(t *testing.T) {
	s := open(t, nil)
	s.fake.PingEvery(50 * time.Millisecond)
	s.fake.RetryEvery(time.Hour)
	hold := make(chan struct{})
	s.sink.hold = hold
	s.run()
	s.eventually("both sockets are open", func() bool { return s.fake.Hellos() == 2 })
	const many = 400 // of two sockets each gets several times what may wait
	for range many {
		m := s.fake.Store(fakeslack.Message{Channel: "D1", User: "U1", Text: "x"})
		s.must(s.fake.Emit(s.fake.EventsOf(m)[0]))
	}
	s.eventually("all were read", func() bool {
		s.queue.mu.Lock()
		defer s.queue.mu.Unlock()
		return s.queue.n == many
	})
	before := s.fake.Pongs()
	s.eventually("pings are answered", func() bool { return s.fake.Pongs() > before+4 })
	if s.fake.Open() != many {
		t.Errorf("%d of %d events were acknowledged before they were durable", many-s.fake.Open(), many)
	}
	close(hold)
	for range many {
		s.event()
	}
	s.quiet()
}

// slack-go's HTTP client waits for ever by default.
func TestSlackThatNeverAnswers(t *testing.T) {
	s := open(t, nil)
	s.dialTimeout = 200 * time.Millisecond
	s.fake.Fail("apps.connections.open", fakeslack.Failure{Hang: true, Times: 3})
	s.run()
	if s.api.http.Timeout == 0 {
		t.Error("the Web API's client has no timeout")
	}
}
