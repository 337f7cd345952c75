package openai

import (
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter bounds what a provider may ask for: a header must not park a turn for a week.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads Retry-After-Ms and Retry-After: milliseconds, seconds (fractions are seen) or an HTTP date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil {
		return bounded(ms * float64(time.Millisecond))
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		return bounded(s * float64(time.Second))
	}
	if t, err := http.ParseTime(v); err == nil {
		return bounded(float64(t.Sub(now)))
	}
	return 0
}

var tryAgainIn = regexp.MustCompile(`(?i)(?:try again|retry) in (?:(\d{1,4})m)?(?:(\d{1,6}(?:\.\d{1,6})?)(ms|s))?`)

// retryAfterText reads "Please try again in 1m2.5s", which OpenAI writes where it sends no header (within streams).
func retryAfterText(message string) time.Duration {
	match := tryAgainIn.FindStringSubmatch(message)
	if match == nil {
		return 0
	}
	var d float64
	if minutes, err := strconv.ParseFloat(match[1], 64); err == nil {
		d += minutes * float64(time.Minute)
	}
	if n, err := strconv.ParseFloat(match[2], 64); err == nil {
		unit := time.Second
		if match[3] == "ms" {
			unit = time.Millisecond
		}
		d += n * float64(unit)
	}
	return bounded(d)
}

func bounded(d float64) time.Duration {
	switch {
	case math.IsNaN(d) || d <= 0:
		return 0
	case d >= float64(maxRetryAfter):
		return maxRetryAfter
	}
	return time.Duration(d)
}
