package workflows

import (
	"errors"
	"strings"
	"testing"

	"go.temporal.io/sdk/temporal"
)

func retryable(kind string) error { return temporal.NewApplicationError("x", kind) }
func final(kind string) error     { return temporal.NewNonRetryableApplicationError("x", kind, nil) }

func TestOversizedPayloadFailsAtOnceAndForGood(t *testing.T) {
	c := DataConverter()
	big := TurnInput{Turn: "t", Message: "m", Agent: "a"}
	if _, err := c.ToPayload(big); err != nil {
		t.Fatal(err)
	}
	big.Agent = "a" + "b"
	for _, f := range []func(any) error{
		func(v any) error { _, err := c.ToPayload(v); return err },
		func(v any) error { _, err := c.ToPayloads("small", v); return err },
	} {
		var app *temporal.ApplicationError
		if err := f(strings.Repeat("x", MaxPayload)); !errors.As(err, &app) || !app.NonRetryable() {
			t.Errorf("64 KiB and quotes: %v", err)
		}
		if err := f(strings.Repeat("x", MaxPayload-2)); err != nil {
			t.Errorf("just 64 KiB: %v", err)
		}
	}
}
