package openai

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"sightline/agent"
)

// toolCalls puts tool calls together from their pieces. By the API's rules a piece has the call's index, and its first
// one the id and the name. Servers were seen to send whole calls in one piece, several calls under one index, no index,
// no id, or the name again with each piece.
type toolCalls struct {
	list []*partialCall
}

type partialCall struct {
	index    int // -1: none was given
	id, name string
	args     strings.Builder
}

func (t *toolCalls) delta(index int, id, name, args string) {
	c := t.find(index, id, name)
	if c == nil {
		c = &partialCall{index: index}
		t.list = append(t.list, c)
	}
	if c.id == "" {
		c.id = id
	}
	if c.name == "" {
		c.name = name
	}
	c.args.WriteString(args)
}

// find returns the call that a piece belongs to, or nil for a new one.
func (t *toolCalls) find(index int, id, name string) *partialCall {
	for _, c := range slices.Backward(t.list) {
		switch {
		case index >= 0 && c.index == index:
			if id != "" && c.id != "" && id != c.id {
				return nil // another call under the same index
			}
			return c
		case index < 0 && id != "" && c.id == id:
			return c
		}
	}
	if index >= 0 || id != "" || name != "" || len(t.list) == 0 {
		return nil
	}
	return t.list[len(t.list)-1] // nothing but arguments: they go on
}

var errNamelessCall = errors.New("a tool call has no name")

func (t *toolCalls) all() ([]agent.ToolCall, error) {
	var calls []agent.ToolCall
	for _, c := range t.list {
		if c.name == "" {
			return nil, &providerError{code: "nameless_tool_call", message: errNamelessCall.Error()}
		}
		calls = append(calls, agent.ToolCall{ID: c.id, Name: c.name, Arguments: c.args.String()})
	}
	return calls, nil
}

// makeIDsUnique gives an id to calls that came without one or with one that the transcript already has: some servers
// count from zero in every answer, and results are matched to calls by id.
func makeIDsUnique(calls []agent.ToolCall, past []agent.Message) {
	if len(calls) == 0 {
		return
	}
	taken := map[string]bool{"": true}
	for _, m := range past {
		for _, c := range m.Calls {
			taken[c.ID] = true
		}
	}
	for i := range calls {
		if taken[calls[i].ID] {
			var b [12]byte
			_, _ = rand.Read(b[:]) // crypto/rand never fails
			calls[i].ID = "call_" + hex.EncodeToString(b[:])
		}
		taken[calls[i].ID] = true
	}
}
