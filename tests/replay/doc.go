// Package replay replays stored histories of every shape of turn against the
// workflows as they are now.
//
// It owns the histories, one folder a version of the workflows: a folder is
// only ever added, never rewritten, since histories like these are running
// somewhere. A history that no longer replays is a change that would wedge
// running turns; it fails the test, and is to be made behind workflow.GetVersion.
// New ones are written by the test in tests/e2e that says how.
package replay
