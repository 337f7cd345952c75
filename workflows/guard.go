package workflows

import (
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
)

// MaxPayload bounds one payload. Ours are identifiers and counters; anything
// near this is a programming error, and without the guard an oversized result
// would be refused by the server and retried for ever.
const MaxPayload = 64 << 10

// guard refuses to encode what should have been a row and a reference.
type guard struct{ converter.DataConverter }

// DataConverter is the SDK's own with the size guard.
func DataConverter() converter.DataConverter { return guard{converter.GetDefaultDataConverter()} }

func tooLarge(n int) error {
	return temporal.NewNonRetryableApplicationError(
		fmt.Sprintf("payload of %d bytes is over %d: it must be a row and a reference", n, MaxPayload), failInternal, nil)
}

func (g guard) ToPayload(v any) (*commonpb.Payload, error) {
	p, err := g.DataConverter.ToPayload(v)
	if err == nil && p != nil && len(p.Data) > MaxPayload {
		return nil, tooLarge(len(p.Data))
	}
	return p, err
}

func (g guard) ToPayloads(v ...any) (*commonpb.Payloads, error) {
	ps, err := g.DataConverter.ToPayloads(v...)
	if err != nil {
		return nil, err
	}
	for _, p := range ps.GetPayloads() {
		if len(p.Data) > MaxPayload {
			return nil, tooLarge(len(p.Data))
		}
	}
	return ps, nil
}
