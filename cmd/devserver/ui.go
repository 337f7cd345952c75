package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/labstack/echo/v4"
	"github.com/temporalio/ui-server/v2/server"
	"github.com/temporalio/ui-server/v2/server/api"
	"github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/server_options"
)

// startUI serves the Web UI, if it has a port, and returns when it listens.
func startUI(ctx context.Context, p ports, namespace string) (stop func(), err error) {
	if p.ui == 0 {
		return func() {}, nil
	}
	s := server.NewServer(
		server_options.WithConfigProvider(&config.Config{
			TemporalGRPCAddress: p.frontend(),
			Host:                loopback,
			Port:                p.ui,
			EnableUI:            true,
			DefaultNamespace:    namespace,
			CORS:                config.CORS{CookieInsecure: true}, // plain HTTP on loopback
			HideLogs:            true,
			DisableNewsFetch:    true,
		}),
		server_options.WithAPIMiddleware([]api.Middleware{onlyLocalNames}),
	)
	go func() { _ = s.Start() }() // it ends the process itself when it cannot listen
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = retry(ctx, func() (struct{}, error) {
		conn, err := net.Dial("tcp4", net.JoinHostPort(loopback, strconv.Itoa(p.ui)))
		if err == nil {
			conn.Close()
		}
		return struct{}{}, err
	})
	if err != nil {
		return nil, fmt.Errorf("wait for web UI: %w", err)
	}
	return s.Stop, nil
}

// onlyLocalNames refuses API requests that were made under another name than this machine's own: a web page elsewhere can
// point its name at loopback, and would then be the same origin as this UI, which asks for no login.
func onlyLocalNames(echo.Context) runtime.ServeMuxOption {
	return runtime.WithMiddlewares(func(next runtime.HandlerFunc) runtime.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
			if !localName(r.Host) {
				http.Error(w, "this server answers on loopback names only", http.StatusForbidden)
				return
			}
			next(w, r, params)
		}
	})
}

func localName(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}
