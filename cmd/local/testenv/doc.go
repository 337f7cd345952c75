// Package testenv gives tests the real services: one ephemeral Postgres and one Temporal development server for each
// test process, both started when first asked for. It uses the launchers of [sightline/cmd/local], so that every test
// run exercises them.
//
//	func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
//
// Isolation: each call of [Postgres] answers a database of its own, dropped when the test ends. [Temporal] answers one
// namespace for all, because a new namespace takes seconds to be known everywhere: tests keep apart by unique workflow
// IDs and task queues.
//
// It refuses to pass silently: a test is skipped only when a service is not installed, with a message that says how to
// install it, and never with SIGHTLINE_NO_SKIP=1. Every other failure fails the test.
//
// When the test process is killed, the servers end with it, and the next run sweeps away the folders that it left (a
// folder whose lock is free). SIGHTLINE_TEST_DATABASE_URL names a Postgres to use instead, whose role may create
// databases; SIGHTLINE_TEST_TEMPORAL_ADDRESS names a Temporal server, namespace "default".
package testenv
