//go:build !linux

package sandbox

import "golang.org/x/sys/unix"

// setMode changes the permissions of a name in dir, never through a link.
func setMode(dir int, name string, mode uint32) error {
	return unix.Fchmodat(dir, name, mode, unix.AT_SYMLINK_NOFOLLOW)
}
