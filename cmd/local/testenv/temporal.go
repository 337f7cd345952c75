package testenv

import (
	"context"
	"os"
	"testing"

	"sightline/cmd/local"
)

// namespace is the one that all tests share.
const namespace = "default"

// SearchAttributes are those that the server has. A package whose workflows use some sets it in TestMain, before Main.
var SearchAttributes = map[string]string{}

var temporal = shared[*local.Temporal]{start: func(ctx context.Context, dir string) (*local.Temporal, error) {
	return local.StartTemporal(ctx, local.TemporalConfig{
		Dir: dir, Namespace: namespace, SearchAttributes: SearchAttributes, UIAddr: "off",
		Binary: os.Getenv("SIGHTLINE_DEVSERVER"), Progress: say,
	})
}}

// Temporal answers where a Temporal server is, and the namespace to use. Tests share both: they must use workflow IDs and
// task queues of their own, such as ones that contain the test's name. The first test on a machine may wait minutes, for
// the server is built then.
func Temporal(t testing.TB) (address, ns string) {
	t.Helper()
	if a := os.Getenv("SIGHTLINE_TEST_TEMPORAL_ADDRESS"); a != "" {
		return a, namespace
	}
	server, err := temporal.get()
	give(t, "a Temporal server", err)
	return server.Address(), server.Namespace()
}
