package web

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// Listen opens the page's address, on loopback unless the operator asked for
// it to be reachable from elsewhere (remote). It speaks plain HTTP: beyond
// loopback put it behind something that does not.
func Listen(addr string, remote bool) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return nil, fmt.Errorf("address %q is not host:port; set SIGHTLINE_WEB_ADDR", addr)
	}
	if !remote && !isLoopback(host) {
		return nil, fmt.Errorf("address %s is not on loopback and would be open to others; set SIGHTLINE_WEB_ADDR to 127.0.0.1:%s", addr, port)
	}
	l, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("address %s is in use; set SIGHTLINE_WEB_ADDR", addr)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w; set SIGHTLINE_WEB_ADDR", addr, err)
	}
	return l, nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// reachable is where this machine finds a listener that may be bound to
// every address.
func reachable(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.Is6() {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}

func portOf(hostport string) string {
	_, port, _ := net.SplitHostPort(hostport)
	return port
}
