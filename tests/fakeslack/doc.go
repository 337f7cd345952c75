// Package fakeslack is a Slack workspace on loopback: the part of the Web API
// that a bot uses, Socket Mode, signed Events API requests and the file host,
// in their real wire formats. Tests play its people through Server's methods.
//
// It owns no judgement: it answers as Slack documents, with Slack's error
// words, and can be told to fail, to be slow to show a message, to lose or
// double events and to drop connections. It never talks to anything but
// loopback, and errors of the fake itself are returned to the test.
package fakeslack
