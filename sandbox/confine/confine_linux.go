package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ABI is the version of Landlock that the kernel has; an error means that it has none or that it is switched off.
func ABI() (int, error) {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, fmt.Errorf("ask for landlock: %w", errno)
	}
	return int(v), nil
}

// Rule allows some accesses below a path.
type Rule struct {
	Path   string
	Access uint64
}

// Landlock denies every access and scope in handled except what rules allow.
func Landlock(handled unix.LandlockRulesetAttr, rules []Rule) error {
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&handled)), unsafe.Sizeof(handled), 0)
	if errno != 0 {
		return fmt.Errorf("create landlock ruleset: %w", errno)
	}
	set := int(fd)
	defer unix.Close(set)
	for _, r := range rules {
		if err := allow(set, r); err != nil {
			return err
		}
	}
	if err := noNewPrivileges(); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(set), 0, 0); errno != 0 {
		return fmt.Errorf("restrict thread by landlock: %w", errno)
	}
	return nil
}

func allow(set int, r Rule) error {
	at, err := unix.Open(r.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // nothing is there to allow
	}
	if err != nil {
		return fmt.Errorf("allow %s: %w", r.Path, err)
	}
	defer unix.Close(at)
	attr := unix.LandlockPathBeneathAttr{Allowed_access: r.Access, Parent_fd: int32(at)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("allow %s: %w", r.Path, errno)
	}
	return nil
}

func noNewPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// Seccomp loads a filter into the calling thread.
func Seccomp(filter []unix.SockFilter) error {
	if len(filter) == 0 || len(filter) > 4096 {
		return fmt.Errorf("load seccomp filter: %d instructions", len(filter))
	}
	if err := noNewPrivileges(); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return fmt.Errorf("load seccomp filter: %w", errno)
	}
	return nil
}
