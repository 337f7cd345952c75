package slack

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"sightline/tests/fakeslack"
)

// One call that is told to wait makes all of its method wait, and none of
// others: Slack counts them together.
func TestRetryAfterIsForTheWholeMethod(t *testing.T) {
	s := open(t, nil)
	const method = "conversations.info"
	in := url.Values{"channel": {"C1"}}
	s.fake.Fail(method, fakeslack.Failure{Status: 429, RetryAfter: 1, Times: 1})
	began := time.Now()
	if _, err := s.api.once(t.Context(), s.api.token, method, in, nil); codeOf(err) != "ratelimited" {
		t.Fatal(err)
	}
	var e *apiError
	if _, err := s.api.once(t.Context(), s.api.token, method, in, nil); !errors.As(err, &e) || e.Retry <= 0 || e.Retry > time.Second {
		t.Errorf("meanwhile: %v", err)
	}
	if n := len(s.fake.Calls(method)); n != 1 {
		t.Errorf("%d requests before the time", n)
	}
	if _, err := s.api.call(t.Context(), "auth.test", nil, nil); err != nil {
		t.Errorf("another method: %v", err)
	}
	if _, err := s.api.call(t.Context(), method, in, nil); err != nil || time.Since(began) < time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

// Posts are counted by channel.
func TestRetryAfterOfAPostIsForItsChannel(t *testing.T) {
	s := open(t, nil)
	const method = "chat.postMessage"
	s.fake.Fail(method, fakeslack.Failure{Status: 429, RetryAfter: 60, Times: 1})
	post := func(channel string) error {
		_, err := s.api.once(t.Context(), s.api.token, method, url.Values{"channel": {channel}, "text": {"x"}}, nil)
		return err
	}
	if one, two, three := post("C1"), post("C1"), post("C2"); codeOf(one) != "ratelimited" || codeOf(two) != "ratelimited" || three != nil {
		t.Errorf("%v, %v, %v", one, two, three)
	}
}
