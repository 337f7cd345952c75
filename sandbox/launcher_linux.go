package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"sightline/sandbox/confine"
)

// The landlock driver starts the service's own program under this name. Landlock and seccomp bind the thread that asks
// for them and can't be taken back, so a process that only becomes the shell has to ask.
const launcherName = "sightline-sandbox-launcher"

type launchSpec struct {
	Dir, Shell, Command string
	UID, GID            int // -1: stay who we are
	Parent              int
	Filter              []unix.SockFilter
	Limits              []launchLimit
}

type launchLimit struct {
	What       int
	Soft, Hard uint64
}

// The launcher's descriptors.
const (
	launchGate = 3 + iota
	launchSpecFD
	launchStatus
)

func init() {
	if len(os.Args) != 1 || os.Args[0] != launcherName {
		return
	}
	for _, fd := range []int{launchGate, launchSpecFD, launchStatus} {
		unix.CloseOnExec(fd)
	}
	err := becomeShell()
	_, _ = fmt.Fprint(os.NewFile(launchStatus, "status"), err) // nobody else to tell
	os.Exit(125)
}

// becomeShell returns only if something failed; nothing of the command has run then.
func becomeShell() error {
	runtime.LockOSThread()
	var s launchSpec
	if err := json.NewDecoder(os.NewFile(launchSpecFD, "spec")).Decode(&s); err != nil {
		return fmt.Errorf("read what to launch: %w", err)
	}
	if n, err := os.NewFile(launchGate, "gate").Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("wait at the gate: %w", err)
	}
	if err := os.Chdir(s.Dir); err != nil {
		return fmt.Errorf("enter workspace: %w", err)
	}
	if err := confine.Landlock(handled, rules(s.Dir)); err != nil {
		return err
	}
	if s.UID >= 0 {
		if err := errors.Join(syscall.Setgroups([]int{}), syscall.Setresgid(s.GID, s.GID, s.GID), syscall.Setresuid(s.UID, s.UID, s.UID)); err != nil {
			return fmt.Errorf("become another user: %w", err)
		}
	}
	// Changing the user cleared it. The parent may have died before.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with the service: %w", err)
	}
	if os.Getppid() != s.Parent {
		return errors.New("end with the service: it is gone")
	}
	if err := confine.Seccomp(s.Filter); err != nil {
		return err
	}
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", "HOME=" + s.Dir, "TMPDIR=" + s.Dir, "USER=sandbox", "LANG=C.UTF-8", "PWD=" + s.Dir}
	argv := []string{s.Shell, "-c", s.Command}
	// Last, since Go may want memory and threads until then.
	for _, l := range s.Limits {
		if err := unix.Prlimit(0, l.What, &unix.Rlimit{Cur: l.Soft, Max: l.Hard}, nil); err != nil {
			return fmt.Errorf("set limit %d: %w", l.What, err)
		}
	}
	return fmt.Errorf("become shell: %w", unix.Exec(s.Shell, argv, env))
}

const (
	readFile  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE
	readBelow = readFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeFile = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	workBelow = readBelow | writeFile | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_REFER
)

// handled is everything that version 6 can deny.
var handled = unix.LandlockRulesetAttr{
	Handled_access_fs: workBelow | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV,
	Handled_access_net: unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP,
	Scoped:             unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL,
}

func rules(dir string) []confine.Rule {
	list := []confine.Rule{{Path: dir, Access: workBelow}}
	for _, p := range append([]string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}, readOnly...) {
		access := uint64(readBelow)
		if st, err := os.Stat(p); err == nil && !st.IsDir() {
			access = readFile
		}
		list = append(list, confine.Rule{Path: p, Access: access})
	}
	for _, p := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"} {
		list = append(list, confine.Rule{Path: p, Access: unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE})
	}
	return list
}
