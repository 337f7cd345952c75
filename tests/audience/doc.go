// Package audience changes a platform at random while an agent answers there,
// and holds every byte fetched, every name listed, every word retold and every
// word posted against a second, independent reading of who may see what.
//
// It owns that reading (oracle_test.go), which enumerates people where the
// product reasons about structure: what the product allows, the oracle must
// allow, too. It has a real store and a real connector, and no workflow
// engine: the activities are run one by one, so that a change can come between
// any two of them. A failing seed is run again with SIGHTLINE_TEST_SEED.
package audience
