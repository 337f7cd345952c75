package service

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.temporal.io/sdk/client"

	"sightline/checkpoints"
)

// ops serves the two questions of a supervisor, and the numbers.
func (s *service) ops(db *checkpoints.DB, tc client.Client) error {
	l, err := net.Listen("tcp", s.c.OpsAddr)
	if err != nil {
		return fmt.Errorf("SIGHTLINE_OPS_ADDR %s can't be listened on: %w", s.c.OpsAddr, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
		defer cancel()
		state := map[string]string{"postgres": "ok", "temporal": "ok"}
		code := http.StatusOK
		if err := db.Ping(ctx); err != nil {
			state["postgres"], code = "unreachable", http.StatusServiceUnavailable
		}
		if _, err := tc.CheckHealth(ctx, nil); err != nil {
			state["temporal"], code = "unreachable", http.StatusServiceUnavailable
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(state)
	})
	mux.Handle("GET /metrics", s.tele.Handler())
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = srv.Serve(l) }()
	s.later(func(ctx context.Context) { _ = srv.Shutdown(ctx) })
	return nil
}
