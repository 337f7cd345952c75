// Package slack joins one agent to one Slack workspace.
//
// It owns the way in (Socket Mode on two connections, or the signed Events
// API), the way out (replies in their threads, status, answers to the slash
// command) and the live questions about places and files. It keeps no rows:
// events are handed to a Sink, which makes them durable.
//
//	socket 1 ─┐                    ┌ lane of channel A ─┐
//	socket 2 ─┼─▶ parse, merge ──▶ ┼ lane of channel B ─┼─▶ Sink.Deliver ─▶ ack
//	history  ─┘   the twins        └ ...                ┘
//
// An event is acknowledged after its lane has delivered it and never before;
// what fails is left to Slack's own retry, and read from history besides, for as
// long as it takes. What was missed in between is read from history when a
// connection comes back, and again until all of it was read and delivered: of a
// channel its last 10,000 messages, the threads that had replies since below what
// was read (its last 200 messages at least), and the 50 newest threads where the
// agent takes part, 10,000 replies each. What is still to be read is kept in the
// store before a newer message is delivered, so that a process that is killed
// leaves it to the next one. The newest messages that the store has are
// compared with it for edits and deletions (20 channels and 20 threads, five
// pages each; the rest is refused at its next fetch), and those of a channel
// when the agent is invited to it again. A channel whose new ID was missed is
// known by asking for it under the old one. The slash command is the one
// exception: Slack wants its acknowledgement within three seconds, and a person
// can repeat a command.
//
// A conversation is a thread: whoever mentions the agent at the top of a
// channel is answered in the thread below, and the message belongs to it. In
// a direct message it is the direct message, or its thread. Files that people
// post beside the agent are recorded in silence where they were posted, in the
// channel or in the thread; words are not.
//
// Of slack-go this package takes the sockets and the signatures. The Web API
// is called by a small client of its own, because slack-go's has no bound on
// what it reads, fails a whole page for one field, and retries without asking.
//
// An answer in the making is a stream where Slack takes one, else a message
// that is edited; the reply ends it, in the same message. What was posted for
// a reply's key is known again by its metadata; a stream and a shared file,
// which can have none, by their words, and by name and size.
//
//	no thread, or refused ──▶ edited ◀── idle, 4 minutes old, other words,
//	thread ──▶ streams ─────────┘        ended by Slack, another process
//
// It refuses whatever it could not establish just now: an audience from facts
// older than 30 seconds, a file that the message of a grant no longer has, a
// download from a host that is not Slack's. Names, ID prefixes, stored URLs
// and declared types decide nothing. The token goes to no other host.
//
// Events may be another process's: a Bot that does not Run decides, reads and
// posts by the store and by what it asks Slack, never by what it remembers of
// events. Run may end and begin again; what was missed is then read.
//
// On failure: errors for people name no URL; a wrong token ends Run with an
// AuthError that says which one; missing scopes are logged at start; events
// that can't be read are acknowledged, logged, and make what is known of
// their place stale.
package slack
