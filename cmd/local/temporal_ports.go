package local

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	loopback      = "127.0.0.1"
	defaultUIPort = 8233
)

// temporalPorts are where the server and its Web UI listen; ui is 0 for nowhere.
type temporalPorts struct{ frontend, ui int }

func (p temporalPorts) address() string { return net.JoinHostPort(loopback, strconv.Itoa(p.frontend)) }

func (p temporalPorts) uiURL() string {
	if p.ui == 0 {
		return ""
	}
	return "http://" + net.JoinHostPort(loopback, strconv.Itoa(p.ui))
}

func (l *temporalLauncher) portFile() string { return filepath.Join(l.config.Dir, "port") }

// choosePorts prefers the port of the last time, so that an operator's tools find the server where it was.
func (l *temporalLauncher) choosePorts() (temporalPorts, error) {
	var p temporalPorts
	last := 0
	if b, err := os.ReadFile(l.portFile()); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && n > 1023 && n < 65536 {
			last = n
		}
	}
	a, err := listenNear(last)
	if err != nil {
		return p, fmt.Errorf("choose port: %w", err)
	}
	defer a.Close() // held until both are chosen, so that they differ
	p.frontend = a.Addr().(*net.TCPAddr).Port
	if l.config.UIAddr == "off" {
		return p, nil
	}
	var ui net.Listener
	if l.config.UIAddr == "" {
		ui, err = listenNear(defaultUIPort)
	} else {
		ui, err = listenUI(l.config.UIAddr)
	}
	if err != nil {
		return p, fmt.Errorf("choose port of the web UI: %w", err)
	}
	defer ui.Close()
	p.ui = ui.Addr().(*net.TCPAddr).Port
	return p, nil
}

// listenNear takes the port, or another if that is taken; 0 is any.
func listenNear(port int) (net.Listener, error) {
	a, err := net.Listen("tcp4", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES) {
		return net.Listen("tcp4", net.JoinHostPort(loopback, "0"))
	}
	return a, err
}

// listenUI takes exactly the address that an operator named, and only on loopback: the UI has no login.
func listenUI(addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if host != loopback && host != "localhost" {
		return nil, fmt.Errorf("%q is not %s, and the web UI has no login", host, loopback)
	}
	return net.Listen("tcp4", net.JoinHostPort(loopback, port))
}

// rememberPort is a convenience: without the file, the next start has another port.
func (l *temporalLauncher) rememberPort(port int) {
	if err := os.WriteFile(l.portFile(), []byte(strconv.Itoa(port)+"\n"), 0o600); err != nil {
		l.config.Progress.say("cannot keep the port for next time: %v", err)
	}
}

func (l *temporalLauncher) forgetPort() {
	if err := os.Remove(l.portFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.config.Progress.say("cannot forget the port of last time: %v", err)
	}
}
