package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	tlog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
)

// A stop is no error of the log; everything else is what the SDK says it is.
func TestCancellationsAreNoErrors(t *testing.T) {
	var out bytes.Buffer
	l := tlog.With(tlog.NewStructuredLogger(slog.New(calm{slog.NewTextHandler(&out, nil)})), "Namespace", "default")
	l.Error("Activity error.", "Error", temporal.NewCanceledError())
	l.Error("Activity error.", "Error", fmt.Errorf("x: %w", context.Canceled))
	l.Warn("RecordActivityHeartbeat with error", "Error", context.Canceled)
	if out.Len() > 0 {
		t.Errorf("logged: %s", &out)
	}
	l.Error("Activity error.", "Error", errors.New("the disk is full"))
	l.Warn("a warning", "n", 1)
	for _, want := range []string{"level=ERROR", "the disk is full", "level=WARN", "Namespace=default"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %q: %s", want, &out)
		}
	}
}
