package workflows

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.temporal.io/sdk/temporal"

	"sightline/checkpoints"
	"sightline/connectors/chat"
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

// What can't get better is not tried again; what can is.
func TestSettle(t *testing.T) {
	for _, c := range []struct {
		err   error
		final bool
	}{
		{checkpoints.ErrNotFound, true}, {checkpoints.ErrConflict, true}, {checkpoints.ErrInvalid, true}, {chat.ErrRefused, true},
		{checkpoints.ErrUnavailable, false}, {errors.New("anything"), false},
	} {
		var app *temporal.ApplicationError
		if err := settle(t.Context(), fmt.Errorf("x: %w", c.err)); !errors.As(err, &app) || app.NonRetryable() != c.final {
			t.Errorf("%v: %v", c.err, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := settle(ctx, errors.New("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := settle(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
