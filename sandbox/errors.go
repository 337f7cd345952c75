package sandbox

import (
	"errors"
	"fmt"
	"strings"
)

// Why a request was refused; a *Refused wraps one of them.
var (
	ErrPath     = errors.New("path is not inside of the workspace")
	ErrLink     = errors.New("path leads through a link")
	ErrKind     = errors.New("not a regular file")
	ErrTooLarge = errors.New("too large")
	ErrQuota    = errors.New("workspace is full")
	ErrNotFound = errors.New("no such file in the workspace")
	ErrGone     = errors.New("workspace was removed")
	ErrCommand  = errors.New("not a command that can be run")
)

// Refused says that a request was understood and not done. Nothing was changed.
type Refused struct {
	Kind     error  // one of the sentinels above
	Person   string // a sentence for the model and the person
	Operator string // the same with what helps an operator; never shown in a conversation
}

func (r *Refused) Error() string { return r.Operator }

// Unwrap makes the sentinels work with errors.Is.
func (r *Refused) Unwrap() error { return r.Kind }

func refuse(kind error, person, operator string, args ...any) *Refused {
	return &Refused{Kind: kind, Person: person, Operator: fmt.Sprintf(operator, args...)}
}

// Unavailable says why there is no sandbox, so that its tools are not offered and an operator can mend it.
type Unavailable struct {
	Driver Kind
	Reason string
	Fix    string  // one sentence
	Checks []Check // the canaries that ran, if it came that far
	Err    error   // the cause, where there is one
}

func (u *Unavailable) Error() string {
	s := fmt.Sprintf("sandbox %s is not available: %s", u.Driver, u.Reason)
	if u.Err != nil {
		s += ": " + u.Err.Error()
	}
	for _, c := range u.Checks {
		if !c.OK {
			s += fmt.Sprintf("; canary %s: %s", c.Name, strings.TrimSpace(c.Detail))
		}
	}
	return s
}

// Unwrap returns the cause.
func (u *Unavailable) Unwrap() error { return u.Err }

// A Check is the result of one canary.
type Check struct {
	Name   string
	OK     bool
	Detail string // what was seen, for an operator
}
