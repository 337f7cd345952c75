// Package e2e runs the whole program, as a process of its own that can be
// killed, against a model in the test's hands, and looks at what comes out:
// requests with their pixels, answers, rows, histories and logs.
//
// It owns the harness only; what it refuses is a machine without the parts
// that the program needs, with a message that says how to install them. A
// failed test leaves no process behind: every child ends with its test.
package e2e
