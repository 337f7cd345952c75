// Package connectortest is the one set of rules that every connector keeps,
// whatever its platform: bytes only under a live grant and only of a message
// that is there, refusals that tell nothing, replies that are posted once.
//
// It owns no platform: a Harness plays people on the platform (or on a fake
// of it) and hands over the connector's ports. Grants come from a real
// Authorizer over an inventory of the suite's own, so that every way to hold
// a grant that must not work can be tried.
//
// It refuses a harness that leaves out a rule's means: a connector that can't
// be tested fails.
package connectortest
