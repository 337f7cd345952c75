package chat

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"io"
	"strings"
)

// Every identifier below is opaque: compare it, store it, never parse it.
type (
	// AgentID names one configured agent of this installation.
	AgentID string
	// PlaceID names a channel, a thread or a direct conversation, per agent.
	PlaceID string
	// ConversationID names what one agent and one place have said. It is also
	// the identity of the Conversation workflow.
	ConversationID string
	// MessageID names one platform message in one place, whatever its revision.
	MessageID string
	// TurnID names the answer to one message. It is derived from the message,
	// so the same message can never start two turns.
	TurnID string
	// AttachmentID names one file of one message: 128 random bits. It is the
	// only name of a file that the model ever sees.
	AttachmentID string
	// Platform is "discord", "slack" or "web".
	Platform string
)

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

const idLength = 26 // 128 bits in base32

// NewAttachmentID returns a fresh random ID.
func NewAttachmentID() AttachmentID {
	var b [16]byte
	if _, err := io.ReadFull(rand.Reader, b[:]); err != nil {
		panic("chat: no randomness: " + err.Error()) // crypto/rand never fails on supported systems
	}
	return AttachmentID("att_" + idEncoding.EncodeToString(b[:]))
}

// NewWorkspaceID returns a fresh random ID of a workspace.
func NewWorkspaceID() string { return "wsp_" + strings.TrimPrefix(string(NewAttachmentID()), "att_") }

// ParseAttachmentID accepts exactly the shape NewAttachmentID makes, so that
// a URL, a path or a file name in place of an ID is refused before any lookup.
func ParseAttachmentID(s string) (AttachmentID, error) {
	rest, ok := strings.CutPrefix(s, "att_")
	if !ok || len(rest) != idLength {
		return "", fmt.Errorf("not an attachment id")
	}
	if _, err := idEncoding.DecodeString(rest); err != nil {
		return "", fmt.Errorf("not an attachment id")
	}
	return AttachmentID(s), nil
}

// derive hashes the parts with their lengths, so ("ab","c") and ("a","bc")
// never meet.
func derive(prefix string, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s,", len(p), p)
	}
	return prefix + idEncoding.EncodeToString(h.Sum(nil)[:16])
}

// ConversationOf names the conversation of an agent in a place.
func ConversationOf(agent AgentID, place PlaceID) ConversationID {
	return ConversationID(derive("cnv_", string(agent), string(place)))
}

// MessageOf names a platform message in a place.
func MessageOf(place PlaceID, native string) MessageID {
	return MessageID(derive("msg_", string(place), native))
}

// TurnOf names the turn that answers a message.
func TurnOf(m MessageID) TurnID { return TurnID(derive("trn_", string(m))) }
