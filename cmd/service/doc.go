// Package service is the program behind cmd/sightline: it reads the
// configuration, starts what has to run on this machine, joins connectors,
// agents, workflows and the stores, and stops all of it again.
//
//	config ─▶ home held, web address bound ─▶ Postgres, Temporal (at once)
//	       ─▶ rows migrated ─▶ model ─▶ worker ─▶ web place ─▶ ready
//
// Several processes share this over one Postgres and one Temporal, by roles.
// Each has a state directory of its own. A bot's connection is held under a
// lease, by one process with the connectors' role; the others stand by.
// Whatever two hear at once is recorded and answered once.
//
// Inspect tells what became of a conversation, a turn or an attachment, from
// the rows alone; the console in the page tells the same. Search attributes,
// metrics, traces and the encryption of Temporal's payloads are joined here.
//
// Run refuses to start with one line when something is taken, missing or
// wrong; the process then ends with code 1. While it runs, the end of a
// service that it manages ends it, and what was under way goes on at the next
// start. It is a package of its own so that tests run the program, not a copy
// of it.
package service
