// Package confine gives up rights of the calling thread: Landlock rules and a
// seccomp filter, neither of which can be taken back.
//
// It owns the few system calls that take pointers and for which the standard
// packages have no function, so that it is the only place of the project that
// imports unsafe. It decides nothing: rules and filters are its callers'. The
// caller must have locked its goroutine to the thread and must execute another
// program afterwards or let the thread die.
//
// It refuses a kernel whose Landlock is older than asked for; there is no best
// effort. On any failure the thread may be confined in part, and must not run
// what it was confined for.
package confine
