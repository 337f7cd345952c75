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
// that was not delivered lies behind it and is read again through REST, to the
// end, wherever the bot may read. Of the threads that were archived meanwhile,
// which nobody lists, a server's last 20 are looked at. Edits
// and deletions have no mark: when a session begins anew, the newest messages
// that the store has are compared with their channels (50 channels, three
// pages each; what lies further back is refused at its next fetch).
//
// There are as many sessions (shards) as Discord recommends, which begin at
// the pace that it sets; each one hears its own servers, and the first one
// direct messages. One goes through these states; a fatal close code ends Run:
//
//	waiting ─▶ opening ─▶ open ─▶ down ─▶ opening (resumes)
//	    ▲         │ └─ stuck: the Session is abandoned and another one made
//	    │         └─ 4004, 4010, 4012..4014: FatalError; 4011: more sessions
//	    └─ op 9, 4003, 4007, 4009, three failures: a new session
//
// It refuses audiences that it cannot establish now: facts are live, at most
// 30 seconds old, and dropped by every event that may change them. Missing
// and forbidden files look the same. No error quotes a URL.
//
// The gateway may be another process's: a Bot that does not Run decides, reads
// and posts by the store and by what it asks Discord. Run may end and begin
// again.
//
// On failure nothing is acknowledged: a lookup or a sink that fails is asked
// again, a download returns attachments.ErrGone, ErrDenied or ErrUnreachable,
// a post may be repeated with its key and is posted once. So may a draft, the
// message that is edited while an answer is made and that its post ends: one
// whose identifier was lost is found by its nonce, or in the channel.
package discord
