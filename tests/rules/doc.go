// Package rules holds the tests that keep the shape of this repository: who may import what and why, what a package must
// say of itself, what may stand at the top level, and that the README, the CI, docker-compose.yml and the configuration
// tell the same story.
//
// It has no code but tests. Each rule is a function over a tree of files; it is run on this repository, and on a small
// bad example that it must refuse: a rule that can't fail is no rule.
//
// On failure a test prints one finding a line, each with the file and the reason for the rule. The way out is to change
// the file, or to change the table here together with its reason.
package rules
