// Package fakediscord is a Discord of one process for tests, written from the
// platform's documentation: REST, gateway and CDN over loopback.
//
// It owns guilds, roles, channels, threads, messages and files, and a control
// API in Go with which a test plays people. It speaks the wire protocols and
// nothing else: what connects to it cannot tell, and is not told, that it is
// a fake. It serves one application with one bot and one shard.
//
// It refuses what Discord refuses, with Discord's status and codes: a wrong
// token, intents that the portal does not grant, channels that the bot can't
// see, messages over 2000 characters, a signed URL after its time. A download
// with a bot token is refused and recorded as a violation. A failure of the
// fake itself fails its test.
package fakediscord
