package checkpoints

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"sightline/connectors/chat"
)

const (
	maxText   = 256 << 10 // of a message or a post; the CHECK says the same
	maxLabel  = 1024
	maxReason = 8192
)

// clean makes a string that Postgres can hold: text refuses NUL and whatever
// is not UTF-8. Each such byte becomes one replacement character, so that
// nothing else of the string is lost.
func clean(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// clip is clean, cut to max bytes between two runes.
func clip(s string, max int) string {
	s = clean(s)
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max]
}

func label(s string) string { return clip(s, maxLabel) }

// bounded keeps a text, or as much of it as there is room for and a note that
// it was cut: whoever reads it must know, and a long paste must not fail.
func bounded(s string) string {
	s = clean(s)
	if len(s) <= maxText {
		return s
	}
	const room = 128
	kept := clip(s, maxText-room)
	return kept + fmt.Sprintf("\n[cut here: %d of %d bytes are not kept]", len(s)-len(kept), len(s))
}

// stamp is a time as Postgres gives it back, so that what is returned at the
// first call equals what is read later.
func stamp(t time.Time) time.Time {
	if t.IsZero() {
		t = time.Now()
	}
	return t.UTC().Truncate(time.Microsecond)
}

func cleanActor(a chat.Actor) chat.Actor {
	a.Platform = chat.Platform(clean(string(a.Platform)))
	a.Workspace, a.User, a.Name = clean(a.Workspace), clean(a.User), label(a.Name)
	return a
}

func actorJSON(a chat.Actor) string {
	b, err := json.Marshal(cleanActor(a))
	if err != nil {
		panic("checkpoints: an actor is not JSON: " + err.Error()) // strings, an int and a bool
	}
	return string(b)
}

// body is JSON ready for a json column: bytes that are not UTF-8 (encoding/json
// lets them pass inside strings) are replaced.
func body(raw json.RawMessage) (string, error) {
	if !json.Valid(raw) {
		return "", fmt.Errorf("%w: the body is not JSON", ErrInvalid)
	}
	return strings.ToValidUTF8(string(raw), "\uFFFD"), nil
}

func selectedJSON(s []Selected) (string, error) {
	if s == nil {
		s = []Selected{}
	}
	b, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("%w: the selection is not JSON", ErrInvalid)
	}
	return string(b), nil
}

func placesJSON(p []chat.PlaceID) (string, error) {
	if p == nil {
		p = []chat.PlaceID{}
	}
	b, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("%w: the places are not JSON", ErrInvalid)
	}
	return string(b), nil
}

// null turns an empty string into NULL, for columns whose shape is checked.
func null[T ~string](s T) *string {
	if s == "" {
		return nil
	}
	v := string(s)
	return &v
}
