// Package workflows makes a conversation durable: it owns the Conversation
// and Turn workflows, their activities, and the Ingress that turns a
// connector's event into rows and a signal.
//
//	Event ─▶ Ingress.Deliver: rows, then signal-with-start, then the
//	         connector may acknowledge
//
//	Conversation (one per agent and place; ends when idle)
//	  waiting ──message──▶ Turn running ──done──▶ waiting
//	     ▲                  │ message: steers the turn at its next step,
//	     │                  │          else begins the next turn
//	     └──────────────────┘ stop: cancels it
//
//	Turn: begin ─▶ ( infer ─▶ tools )* ─▶ post ─▶ finish
//
// Payloads are identifiers, counters and digests; text is checkpoint rows.
// Every activity finds its own earlier work and returns it, so a retried one
// repeats nothing: steps are unique by (turn, seq), posts by key.
//
// An answer that takes its time is shown while it is made: a draft, checked as
// a post is before each edit, which the post turns into the reply.
//
// It refuses payloads over 64 KiB, for good and at once: what is that long is
// a row and a reference.
//
// On failure: what can be retried is retried by Temporal; what can't be
// becomes one sentence for the person, posted as the turn's reply, and a
// reason for the operator in the turn's row. The conversation goes on.
package workflows
