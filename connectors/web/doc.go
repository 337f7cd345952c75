// Package web is a platform of its own beside Discord and Slack: a page on
// loopback, and the same place for a terminal.
//
// It owns what a platform owns: conversations by name, messages, the files
// that come with them (rows in Postgres, bytes under the state directory),
// its sign-in, the page, the HTTP API and the live stream. To the rest of
// Sightline it hands events in and takes replies, progress and questions
// about files, through the ports every connector has. Its console shows the
// owner what a Console tells of turns, attachments and decisions, with the
// names of this place's conversations; it knows no store of theirs.
//
//	browser / ask ──POST──▶ row committed ──Sink.Deliver──▶ row marked ──▶ 202
//	                            │                 │
//	                            └── crash here ───┴─▶ delivered again at the
//	                                next start, at the client's retry, and
//	                                every few seconds while the sink fails
//
// A message of a person goes through these states, in this order, whatever is
// killed in between; the sink is told each at least once:
//
//	committed ─▶ delivered ─▶ deleted ─▶ deletion delivered
//
// It refuses: requests for another host's name, writes from another origin,
// anything without a session or the service's token, files over their kind's
// limit, ids that are not this sender's unsent uploads in this conversation.
// Missing and forbidden look the same. A file's declared type and name decide
// nothing; bytes that are no raster picture are only ever downloads.
//
// Replies may be made in other processes, which need the folder of the files
// and wake the page's listeners through Postgres; a wake that is lost is made
// up for at the next heartbeat.
//
// On failure nothing is acknowledged: a person reads a sentence and may try
// again with the same key, which posts once. A slow listener is dropped and
// told to load again. Without its database the place answers 503.
package web
