// Package discord is one agent's connection to Discord: events in, replies
// out, and the two questions about files.
//
// It owns the gateway (through discordgo, whose Session is used for nothing
// else), the REST calls, the downloads, and what Discord's permissions mean.
// Everything is read from the platform's own JSON, so that a field that a
// library decodes wrongly or not at all decides nothing.
//
//	gateway ──▶ lane of the channel ──▶ Sink.Deliver ──▶ mark moves on
//	                  ▲      │
//	   messages after └──────┴─▶ tried again, in order, until it is taken
//	   the mark, at every
//	   READY and start
//
// The gateway acknowledges nothing, so a mark per channel does: a message
// that was not delivered lies behind it and is read again through REST.
//
// A connection goes through these states; a fatal close code ends Run:
//
//	opening ─▶ open ─▶ down ─▶ opening (resumes)
//	   │ └─ stuck: the Session is abandoned and another one made
//	   └─ 4004, 4010..4014: FatalError
//
// It refuses audiences that it cannot establish now: facts are live, at most
// 30 seconds old, and dropped by every event that may change them. Missing
// and forbidden files look the same. No error quotes a URL.
//
// On failure nothing is acknowledged: a lookup or a sink that fails is asked
// again, a download returns attachments.ErrGone, ErrDenied or ErrUnreachable,
// a post may be repeated with its key and is posted once.
package discord
