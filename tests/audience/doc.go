// Package audience changes a platform at random while an agent answers there,
// and holds every byte fetched, every name listed, every word retold and every
// word posted against a second, independent reading of who may see what.
//
// It owns that reading, for Discord (oracle_test.go) and for Slack
// (slack_oracle_test.go), which enumerates people where the product reasons
// about structure: what the product allows, the oracle must allow, too, and on
// Slack also the other way round. It has a real store and a real connector, and
// no workflow engine: the activities are run one by one (turn_test.go), so that
// a change can come between any two of them. Events come, come late, twice, or
// never before the agent connects again. A failing seed is run again with
// SIGHTLINE_TEST_SEED.
package audience
