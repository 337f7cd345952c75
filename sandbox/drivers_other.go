//go:build !linux

package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func newBubblewrap(*Runner) (driver, error) {
	return nil, &Unavailable{Driver: Bubblewrap, Reason: "bubblewrap runs on Linux only", Fix: "Configure the docker driver."}
}

func newLandlock(*Runner) (driver, error) {
	return nil, &Unavailable{Driver: Landlock, Reason: "Landlock is a part of Linux", Fix: "Configure the docker driver."}
}

// owner names a running process.
func owner(pid int) (string, error) {
	if err := unix.Kill(pid, 0); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d-0", pid), nil
}
