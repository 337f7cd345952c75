package service

import (
	"context"
	"errors"
	"log/slog"

	"go.temporal.io/sdk/temporal"
)

// calm makes a cancellation no error of the log: somebody said stop, or the
// process ends, and the SDK reports each activity that obeyed.
type calm struct{ slog.Handler }

func (h calm) Handle(ctx context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		if ok && (temporal.IsCanceledError(err) || errors.Is(err, context.Canceled)) {
			r.Level = slog.LevelDebug
		}
		return true
	})
	if !h.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h calm) WithAttrs(a []slog.Attr) slog.Handler { return calm{h.Handler.WithAttrs(a)} }
func (h calm) WithGroup(name string) slog.Handler   { return calm{h.Handler.WithGroup(name)} }
