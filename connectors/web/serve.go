package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// firstConversation is there from the start: a newcomer finds a composer.
const firstConversation = "main"

// Ready is closed once Serve takes requests and a terminal can find it.
func (p *Place) Ready() <-chan struct{} { return p.ready }

// Serve answers until ctx ends, then lets running requests finish. What was
// committed and not delivered before is delivered first.
func (p *Place) Serve(ctx context.Context) error {
	if p.c.Listener == nil {
		return errors.New("web: serve: no listener")
	}
	p.redeliver(ctx)
	if list, err := p.db.conversations(ctx, localUser); err != nil {
		return err
	} else if len(list) == 0 {
		if _, _, err := p.db.named(ctx, localUser, firstConversation); err != nil {
			return err
		}
	}
	if n, err := p.Sweep(ctx, p.c.Now().Add(-unsentLife)); err != nil {
		p.c.Log.Warn("sweeping uploads failed", "error", err)
	} else if n > 0 {
		p.c.Log.Info("swept uploads that were never sent", "files", n)
	}

	streams, endStreams := context.WithCancel(context.WithoutCancel(ctx))
	defer endStreams()
	srv := &http.Server{
		Handler:           p.handler(streams),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(p.c.Log.Handler(), slog.LevelDebug),
	}
	srv.RegisterOnShutdown(endStreams) // an open stream is no reason to stay up

	info := filepath.Join(p.c.Home, serviceFile)
	if err := p.announce(info); err != nil {
		return err
	}
	defer p.withdraw(info)
	close(p.ready)

	var wg sync.WaitGroup
	defer wg.Wait()
	retry, stopRetry := context.WithCancel(ctx)
	defer stopRetry()
	wg.Go(func() { p.keepDelivering(retry) })
	wg.Go(func() { p.hear(retry) })

	failed := make(chan error, 1)
	wg.Go(func() { failed <- srv.Serve(p.c.Listener) })
	select {
	case err := <-failed:
		return fmt.Errorf("web: serve: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		srv.Close()
		return fmt.Errorf("web: stop: %w", err)
	}
	return nil
}

func (p *Place) keepDelivering(ctx context.Context) {
	t := time.NewTicker(retryEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			p.redeliver(ctx)
		}
	}
}

// serviceFile tells a terminal on this machine where the service is. Only
// the owner of the state directory can read it.
const serviceFile = "service.json"

type serviceInfo struct {
	Address string `json:"address"`
	Token   string `json:"token"`
	PID     int    `json:"pid"`
}

func (p *Place) announce(path string) error {
	b, err := json.Marshal(serviceInfo{Address: reachable(p.c.Listener.Addr()), Token: p.token, PID: os.Getpid()})
	if err == nil {
		err = writeFile(path, b)
	}
	if err != nil {
		return fmt.Errorf("web: write %s: %w", serviceFile, err)
	}
	return nil
}

// withdraw removes the file unless another service has written its own.
func (p *Place) withdraw(path string) {
	if s, err := readService(path); err == nil && s.Token == p.token {
		os.Remove(path)
	}
}

func readService(path string) (s serviceInfo, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("read %s: %w", serviceFile, err)
	}
	if _, _, err := net.SplitHostPort(s.Address); err != nil || s.Token == "" {
		return s, fmt.Errorf("read %s: it names no address and token", serviceFile)
	}
	return s, nil
}
