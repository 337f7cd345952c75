package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// setMode changes the permissions of a name in dir, never through a link. The descriptor pins the file, so that they are
// not given to whatever the name stands for a moment later; it needs no permission on the file itself.
func setMode(dir int, name string, mode uint32) error {
	pin, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pin)
	var st unix.Stat_t
	if err := unix.Fstat(pin, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return unix.ELOOP
	}
	return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", pin), mode)
}
