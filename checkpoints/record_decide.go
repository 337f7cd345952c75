package checkpoints

import (
	"fmt"

	"sightline/connectors/chat"
)

// change is what an event does to its message: the rows as they will be, and
// which of them are written.
type change struct {
	agent        chat.AgentID
	conversation chat.ConversationID
	message      storedMessage
	inserted     bool
	updated      bool
	attachments  []chat.Attachment // all of the message, by ordinal
	files        []fileChange
	lastOrdinal  int
}

type fileChange struct {
	at     int // in attachments
	insert bool
}

const (
	reasonMessageDeleted = "its message was deleted"
	reasonFileRemoved    = "it was removed from its message"
	reasonNoIdentifier   = "the platform gave no usable identifier for it"
)

// decide is the table above Record. It only looks at its arguments.
func decide(k known, e chat.Event) change {
	c := change{agent: e.Place.Agent, conversation: e.Place.Conversation(), attachments: k.attachments, lastOrdinal: k.lastOrdinal}
	if k.message == nil {
		c.inserted = true
		c.message = storedMessage{Message: e.Message, edited: e.Kind == chat.MessageEdited}
		c.add(e, false)
		return c
	}
	c.message = *k.message
	switch {
	case c.message.Deleted:
	case e.Kind == chat.MessageDeleted:
		c.updated = true
		c.message.Deleted, c.message.Text = true, ""
		for i := range c.attachments {
			c.drop(i, reasonMessageDeleted)
		}
	case e.Kind == chat.MessageEdited:
		if c.message.Revision != e.Message.Revision || c.message.Text != e.Message.Text || !c.message.edited {
			c.updated, c.message.edited = true, true
			c.message.Revision, c.message.Text = e.Message.Revision, e.Message.Text
		}
		c.removeMissing(e.Files)
		c.add(e, true)
	case c.message.edited && c.message.Revision != e.Message.Revision:
		// A creation that comes after its edit lists files that may be gone.
	default:
		c.add(e, false)
	}
	return c
}

// fileKey is what makes two deliveries of a file one row.
type fileKey struct {
	native string
	origin chat.Origin
}

// add gives every file of the event its row. An edit knows how its message
// looks now; a repeated creation only adds what the first one lacked.
func (c *change) add(e chat.Event, edit bool) {
	have := map[fileKey]int{}
	next := 0
	for i, a := range c.attachments {
		have[fileKey{a.NativeFile, a.Origin}] = i
		next = max(next, a.Index+1)
	}
	for position, f := range e.Files {
		state, reason := f.State, ""
		if f.NativeID == "" || len(f.NativeID) > maxLabel {
			// Listed, so that nobody wonders where it went; never fetched.
			f.NativeID, state, reason = fmt.Sprintf("?%d", position), chat.FileDenied, reasonNoIdentifier
		}
		key := fileKey{f.NativeID, f.Origin}
		if i, ok := have[key]; ok {
			if edit {
				c.refresh(i, position, state, reason)
			}
			continue
		}
		index := next
		if edit {
			index = position
		}
		next = max(next, index+1)
		c.lastOrdinal++
		have[key] = len(c.attachments)
		c.files = append(c.files, fileChange{at: len(c.attachments), insert: true})
		c.attachments = append(c.attachments, chat.Attachment{
			ID: chat.NewAttachmentID(), Agent: e.Place.Agent, Conversation: c.conversation,
			Place: e.Place.ID, Message: c.message.ID, Ordinal: c.lastOrdinal, Index: index,
			NativeFile: f.NativeID, Name: f.Name, DeclaredType: f.DeclaredType, SniffedType: f.SniffedType,
			Size: f.Size, Width: f.Width, Height: f.Height, Origin: f.Origin, State: state, StateReason: reason,
			Author: c.message.Author, PostedAt: c.message.At,
		})
	}
}

func (c *change) removeMissing(files []chat.File) {
	present := map[fileKey]bool{}
	for i, f := range files {
		if f.NativeID == "" || len(f.NativeID) > maxLabel {
			f.NativeID = fmt.Sprintf("?%d", i)
		}
		present[fileKey{f.NativeID, f.Origin}] = true
	}
	for i, a := range c.attachments {
		if !present[fileKey{a.NativeFile, a.Origin}] {
			c.drop(i, reasonFileRemoved)
		}
	}
}

func (c *change) drop(i int, reason string) {
	a := &c.attachments[i]
	if a.State == chat.FileDeleted {
		return
	}
	a.State, a.StateReason = chat.FileDeleted, reason
	c.files = append(c.files, fileChange{at: i})
}

// refresh takes an edit's word on a file it still has, except that a connector
// which never read the bytes does not undo what reading them taught.
func (c *change) refresh(i, position int, state chat.FileState, reason string) {
	a := &c.attachments[i]
	learned := a.State == chat.FileOversize || a.State == chat.FileUnread || a.State == chat.FileDenied
	if learned && state == chat.FileAvailable {
		state, reason = a.State, a.StateReason
	}
	if a.Index == position && a.State == state {
		return
	}
	if a.State != state {
		a.State, a.StateReason = state, reason
	}
	a.Index = position
	c.files = append(c.files, fileChange{at: i})
}
