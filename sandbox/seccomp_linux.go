package sandbox

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// The seccomp filter takes system calls away that commands don't need and that reach far into the kernel, out of the
// namespaces, or around the other limits. Calls that are newer than this list are refused as if the kernel didn't have
// them: an addition of next year's kernel must not open what is closed today.

// A denial refuses one system call. With test set, only if the test on one argument holds.
type denial struct {
	nr    uint32
	errno unix.Errno
	test  *test
}

// A test compares the low half of argument arg, after masking, with a value; with not, it holds if they differ. All tests
// here are on ints, flags and modes, whose high half the kernel ignores or which have none. whole also looks at the high
// half: for pointers. With among, it holds if the argument is none of those.
type test struct {
	arg   int
	mask  uint32
	value uint32
	not   bool
	whole bool
	among []uint32
}

func always(errno unix.Errno, nrs ...uint32) []denial {
	var out []denial
	for _, nr := range nrs {
		out = append(out, denial{nr: nr, errno: errno})
	}
	return out
}

func when(t test, nrs ...uint32) []denial {
	var out []denial
	for _, nr := range nrs {
		out = append(out, denial{nr: nr, errno: unix.EPERM, test: &t})
	}
	return out
}

const (
	newest = unix.SYS_RSEQ_SLICE_YIELD // the newest call that somebody looked at for this list
	// Namespaces of every kind.
	cloneNew = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
		unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWTIME
)

// common is refused under every driver that loads the filter.
func common() []denial {
	var d []denial
	add := func(more []denial) { d = append(d, more...) }
	// Other processes' memory and descriptors; tracing.
	add(always(unix.EPERM, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP,
		unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE, unix.SYS_PERF_EVENT_OPEN))
	// Large and often broken parts of the kernel.
	add(always(unix.ENOSYS, unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
		unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK, unix.SYS_LOOKUP_DCOOKIE,
		unix.SYS_NFSSERVCTL, unix.SYS_MEMFD_SECRET, unix.SYS_MAP_SHADOW_STACK))
	// Mounts and namespaces. clone3 keeps its flags in memory, where no filter can look: C libraries then use clone.
	add(always(unix.EPERM, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT,
		unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
		unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT, unix.SYS_LISTNS, unix.SYS_SETNS, unix.SYS_UNSHARE))
	add(always(unix.ENOSYS, unix.SYS_CLONE3))
	add(when(test{arg: cloneFlagsArg, mask: cloneNew, value: 0, not: true}, unix.SYS_CLONE))
	// The machine.
	add(always(unix.EPERM, unix.SYS_REBOOT, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE,
		unix.SYS_DELETE_MODULE, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SETTIMEOFDAY,
		unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SYSLOG,
		unix.SYS_VHANGUP, unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES, unix.SYS_MBIND, unix.SYS_SET_MEMPOLICY))
	// Files by handle pass every folder's permissions.
	add(always(unix.EPERM, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT))
	// A personality other than Linux's own.
	add([]denial{{nr: unix.SYS_PERSONALITY, errno: unix.EPERM, test: &test{mask: 0xfffdffff, not: true}}})
	// Typing into a terminal.
	add(when(test{arg: 1, mask: math.MaxUint32, value: unix.TIOCSTI}, unix.SYS_IOCTL))
	add(when(test{arg: 1, mask: math.MaxUint32, value: unix.TIOCLINUX}, unix.SYS_IOCTL))
	// Devices. FIFOs and sockets are allowed.
	for _, kind := range []uint32{unix.S_IFCHR, unix.S_IFBLK} {
		add(when(test{arg: 2, mask: unix.S_IFMT, value: kind}, unix.SYS_MKNODAT))
	}
	// Setuid and setgid bits, wherever a mode is given. openat2 keeps it in memory.
	const ids = unix.S_ISUID | unix.S_ISGID
	add(when(test{arg: 1, mask: ids, not: true}, unix.SYS_FCHMOD))
	add(when(test{arg: 2, mask: ids, not: true}, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_MKDIRAT, unix.SYS_MKNODAT))
	add(when(test{arg: 3, mask: ids, not: true}, unix.SYS_OPENAT))
	add(always(unix.ENOSYS, unix.SYS_OPENAT2))
	return append(d, commonArch()...)
}

// networked allows sockets that the network namespace holds in, and local ones. vsock is not among them: it reaches a
// hypervisor from every namespace.
func networked() []denial {
	families := test{among: []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}}
	return []denial{{nr: unix.SYS_SOCKET, errno: unix.EAFNOSUPPORT, test: &families}}
}

// bare is refused where there are no namespaces: what Landlock doesn't rule and what would reach the service's own
// processes and files.
func bare() []denial {
	var d []denial
	add := func(more []denial) { d = append(d, more...) }
	add(always(unix.EPERM, unix.SYS_SOCKET)) // no network at all; socketpair stays
	// Leaving the process group would outlive the command.
	add(always(unix.EPERM, unix.SYS_SETSID, unix.SYS_SETPGID))
	// Others' limits and priorities.
	other := func(arg int) test { return test{arg: arg, mask: math.MaxUint32, not: true} }
	add(when(other(0), unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR))
	add(always(unix.EPERM, unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET))
	// Kernel objects that all processes share.
	add(always(unix.EPERM, unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMCTL, unix.SYS_MSGGET, unix.SYS_MSGCTL,
		unix.SYS_MSGRCV, unix.SYS_MSGSND, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK, unix.SYS_INOTIFY_ADD_WATCH))
	// Landlock has no rule for a file's mode, owner, times and attributes: only for files that could be opened.
	add(always(unix.EPERM, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWNAT, unix.SYS_SETXATTR, unix.SYS_LSETXATTR,
		unix.SYS_SETXATTRAT, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_REMOVEXATTRAT, unix.SYS_FILE_SETATTR))
	add([]denial{{nr: unix.SYS_UTIMENSAT, errno: unix.EPERM, test: &test{arg: 1, mask: math.MaxUint32, not: true, whole: true}}})
	return append(d, bareArch()...)
}

// Offsets into struct seccomp_data, on little-endian machines.
const (
	atNr   = 0
	atArch = 4
	atArgs = 16
)

// program compiles denials. Each is an island that ends with the system call's number loaded again, so that the order
// doesn't matter and no jump is long.
func program(denials []denial) ([]unix.SockFilter, error) {
	stmt := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	jump := func(op uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | op, Jt: yes, Jf: no, K: k}
	}
	load := func(at uint32) unix.SockFilter { return stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, at) }
	ret := func(v uint32) unix.SockFilter { return stmt(unix.BPF_RET|unix.BPF_K, v) }
	refuse := func(e unix.Errno) unix.SockFilter { return ret(unix.SECCOMP_RET_ERRNO | uint32(e)) }

	p := []unix.SockFilter{
		load(atArch),
		jump(unix.BPF_JEQ, auditArch, 1, 0),
		ret(unix.SECCOMP_RET_KILL_PROCESS), // another calling convention numbers its calls differently
		load(atNr),
		// Also refuses x32's numbers, which have a high bit.
		jump(unix.BPF_JGT, newest, 0, 1),
		refuse(unix.ENOSYS),
	}
	for _, d := range denials {
		if d.nr > newest {
			return nil, fmt.Errorf("compile seccomp filter: call %d is newer than %d", d.nr, newest)
		}
		if d.test == nil {
			p = append(p, jump(unix.BPF_JEQ, d.nr, 0, 1), refuse(d.errno))
			continue
		}
		low := uint32(atArgs + 8*d.test.arg)
		island := []unix.SockFilter{load(low)}
		if n := len(d.test.among); n > 0 {
			for i, v := range d.test.among {
				island = append(island, jump(unix.BPF_JEQ, v, uint8(n-i), 0))
			}
			island = append(island, refuse(d.errno), load(atNr))
			p = append(p, jump(unix.BPF_JEQ, d.nr, 0, uint8(len(island))))
			p = append(p, island...)
			continue
		}
		if d.test.mask != math.MaxUint32 {
			island = append(island, stmt(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, d.test.mask))
		}
		if d.test.not {
			island = append(island, jump(unix.BPF_JEQ, d.test.value, 1, 0))
		} else {
			island = append(island, jump(unix.BPF_JEQ, d.test.value, 0, 1))
		}
		island = append(island, refuse(d.errno))
		if d.test.whole {
			island = append(island, load(low+4), jump(unix.BPF_JEQ, 0, 1, 0), refuse(d.errno))
		}
		island = append(island, load(atNr))
		p = append(p, jump(unix.BPF_JEQ, d.nr, 0, uint8(len(island))))
		p = append(p, island...)
	}
	return append(p, ret(unix.SECCOMP_RET_ALLOW)), nil
}

// encode is the form in which bubblewrap reads a filter: struct sock_filter after struct sock_filter.
func encode(p []unix.SockFilter) []byte {
	var b bytes.Buffer
	for _, f := range p {
		_ = binary.Write(&b, binary.NativeEndian, f) // a buffer takes everything
	}
	return b.Bytes()
}
