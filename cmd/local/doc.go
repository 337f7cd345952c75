// Package local owns the services that Sightline manages for itself when it is given none: a Postgres and a Temporal
// development server, both for one state directory, plus the lock that keeps that directory to one process. Tests use
// the same code through [sightline/cmd/local/testenv].
//
// It refuses to share: a second process on a state directory gets an error that names the first one. It refuses to
// listen beyond this machine: Postgres answers on a Unix socket in a directory that only its user can enter, Temporal
// and its Web UI on loopback. It never downloads anything while what it needs is already there, and never runs Postgres
// as root.
//
//	StartPostgres                              StartTemporal
//
//	[lock the folder]                          [lock the folder]
//	     |                                          |
//	postmaster.pid? --alive--> [adopt] --+     built before? CLI? else [build]
//	     | none, or stale                |          |
//	[initdb, if new]                     |     predecessor? --> [wait, then end it]
//	     |                               |          |
//	[start] --files still held--> again  |     [start] --port taken--> again
//	     |                               |          |
//	   ready <---------------------------+        ready
//	     |                                          |
//	Stop, or death -> Done closes,             Stop, or death -> Done closes,
//	                  Err says why                               Err says why
//
// On failure: a service that cannot be found is a [MissingError], whose text names the ways out; a service that ends
// while starting is an error that ends with the last lines of its log. When this process is killed, Postgres goes on
// running (it keeps the data safe by itself) and the next start adopts it, unless it is ephemeral, in which case it ends
// with its parent on Linux; the Temporal server ends with its parent, and the next start waits for that. Nothing here
// restarts a service that dies later: Done reports it, and the caller ends the process.
package local
