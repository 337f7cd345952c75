package attachments

import (
	"errors"
	"fmt"

	"sightline/connectors/chat"
)

var (
	// ErrNotAvailable is the one answer for an ID that does not exist, belongs
	// elsewhere or may not be shown here: the asker learns nothing from it.
	ErrNotAvailable = errors.New("no attachment with that ID is available in this conversation")

	// ErrDoubt is an ErrNotAvailable whose reason may pass: the audience could
	// not be established just now. It reads like every other refusal.
	ErrDoubt error = doubt{}

	// ErrLimited is an ErrNotAvailable that is about the asker's guesses and says
	// nothing of the attachment. It reads like every other refusal, too.
	ErrLimited error = limited{}

	// ErrAsker is an ErrNotAvailable for the one who asks, and says nothing of
	// whether others may. It reads like every other refusal, too.
	ErrAsker error = asker{}

	// ErrGrant means that bytes were asked for without a live grant for them.
	ErrGrant = errors.New("attachments: no live grant for this attachment")

	// ErrGone: the source message or its file is no longer there, or the
	// message was edited since. Returned by a Source.
	ErrGone = errors.New("the message or its file is no longer there")
	// ErrDenied: the platform refused the agent's own credentials.
	ErrDenied = errors.New("the platform refused access to the file")
	// ErrUnreachable: the platform could not be asked. Worth a retry.
	ErrUnreachable = errors.New("the platform could not be reached")
)

type doubt struct{}

func (doubt) Error() string        { return ErrNotAvailable.Error() }
func (doubt) Is(target error) bool { return target == ErrNotAvailable }

type limited struct{}

func (limited) Error() string        { return ErrNotAvailable.Error() }
func (limited) Is(target error) bool { return target == ErrNotAvailable }

type asker struct{}

func (asker) Error() string        { return ErrNotAvailable.Error() }
func (asker) Is(target error) bool { return target == ErrNotAvailable }

// StateError says why an attachment that belongs here can't be used. It is
// returned only after the audience held, so it discloses nothing new.
type StateError struct {
	ID     chat.AttachmentID // empty where a Source says it, which knows the file alone
	State  chat.FileState
	Person string // one sentence for the person and the model
}

func (e *StateError) Error() string {
	if e.ID == "" {
		return fmt.Sprintf("the file is %s: %s", e.State, e.Person)
	}
	return fmt.Sprintf("%s is %s: %s", e.ID, e.State, e.Person)
}

// Withheld is the ErrDenied of a Source whose platform says in which state the
// file is: a person is told of the state.
func Withheld(s chat.FileState) error {
	return errors.Join(ErrDenied, &StateError{State: s, Person: stateSentences[s]})
}

// TooLargeError is a file over the byte limit, refused after Limit+1 bytes.
type TooLargeError struct {
	ID    chat.AttachmentID
	Limit int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the file is larger than the limit of %.1f MiB; a smaller copy can be posted instead", float64(e.Limit)/(1<<20))
}

var stateSentences = map[chat.FileState]string{
	chat.FileDeleted:  "the file was deleted",
	chat.FileExternal: "the file is hosted elsewhere and is never fetched",
	chat.FileHidden:   "the platform hides the file on its present plan",
	chat.FileDenied:   "the platform denies access to the file",
	chat.FileOversize: "the file is larger than the limit",
	chat.FileUnread:   "the file can't be read",
}

func stateError(a chat.Attachment) error {
	s := a.StateReason
	if s == "" {
		s = stateSentences[a.State]
	}
	if s == "" {
		s = "the state of the file is not known"
	}
	return &StateError{ID: a.ID, State: a.State, Person: s}
}
