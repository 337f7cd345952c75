package main

import (
	"fmt"
	"net"
	"strconv"
)

const loopback = "127.0.0.1"

// ports are all that the process listens on.
type ports struct {
	services map[string]int
	ui       int // 0: none
}

func (p ports) address(service string) string {
	return net.JoinHostPort(loopback, strconv.Itoa(p.services[service]))
}

func (p ports) frontend() string { return p.address("frontend") }

func (p ports) uiURL() string {
	if p.ui == 0 {
		return ""
	}
	return "http://" + net.JoinHostPort(loopback, strconv.Itoa(p.ui))
}

// checkLoopback refuses every address but this one: nothing here asks a caller who they are.
func checkLoopback(addr string) error {
	host, _, err := splitAddr(addr)
	if err != nil {
		return err
	}
	if host != loopback && host != "localhost" {
		return fmt.Errorf("%q is not %s: the server has no login", host, loopback)
	}
	return nil
}

func splitAddr(addr string) (string, int, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port %q is not a number up to 65535", port)
	}
	return host, int(n), nil
}

// choosePorts checks that the wanted ports are free and picks the others. The server opens its listeners itself, so all
// that can be done is to hold them together for a moment, which keeps them different from each other.
func choosePorts(addr, uiAddr string) (ports, error) {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	take := func(want int) (int, error) {
		l, err := net.Listen("tcp4", net.JoinHostPort(loopback, strconv.Itoa(want)))
		if err != nil {
			return 0, err
		}
		held = append(held, l)
		return l.Addr().(*net.TCPAddr).Port, nil
	}
	_, want, err := splitAddr(addr)
	if err != nil {
		return ports{}, err
	}
	p := ports{services: map[string]int{}}
	for _, name := range []string{"frontend", "history", "matching", "worker"} {
		port := 0
		if name == "frontend" {
			port = want
		}
		if p.services[name], err = take(port); err != nil {
			return ports{}, fmt.Errorf("listen for %s: %w", name, err)
		}
	}
	if uiAddr == "off" {
		return p, nil
	}
	if _, want, err = splitAddr(uiAddr); err != nil {
		return ports{}, err
	}
	if p.ui, err = take(want); err != nil {
		return ports{}, fmt.Errorf("listen for web UI: %w", err)
	}
	return p, nil
}
