package sandbox

import (
	"encoding/binary"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// evaluate runs a filter on one system call as the kernel would.
func evaluate(t *testing.T, p []unix.SockFilter, arch, nr uint32, args ...uint64) uint32 {
	t.Helper()
	data := make([]byte, 64)
	binary.NativeEndian.PutUint32(data[0:], nr)
	binary.NativeEndian.PutUint32(data[4:], arch)
	for i, a := range args {
		binary.NativeEndian.PutUint64(data[16+8*i:], a)
	}
	var acc uint32
	for pc := 0; pc < len(p); pc++ {
		f := p[pc]
		jump := func(yes bool) {
			if yes {
				pc += int(f.Jt)
			} else {
				pc += int(f.Jf)
			}
		}
		switch f.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = binary.NativeEndian.Uint32(data[f.K:])
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= f.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(acc == f.K)
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			jump(acc > f.K)
		case unix.BPF_RET | unix.BPF_K:
			return f.K
		default:
			t.Fatalf("instruction %d has code %#x", pc, f.Code)
		}
	}
	t.Fatal("the filter ended without a verdict")
	return 0
}

func TestFilter(t *testing.T) {
	const allow = unix.SECCOMP_RET_ALLOW
	errno := func(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }
	eperm, enosys, noFamily := errno(unix.EPERM), errno(unix.ENOSYS), errno(unix.EAFNOSUPPORT)
	wide, err := program(append(common(), networked()...))
	if err != nil {
		t.Fatal(err)
	}
	tight, err := program(append(common(), bare()...))
	if err != nil {
		t.Fatal(err)
	}
	if len(encode(wide)) != 8*len(wide) {
		t.Errorf("an instruction is not 8 bytes")
	}
	at := uint64(0xffffffffffffff9c) // AT_FDCWD
	for _, c := range []struct {
		nr          uint32
		args        []uint64
		wide, tight uint32
	}{
		{unix.SYS_READ, nil, allow, allow},
		{unix.SYS_EXECVE, nil, allow, allow},
		{unix.SYS_PTRACE, nil, eperm, eperm},
		{unix.SYS_BPF, nil, enosys, enosys},
		{unix.SYS_IO_URING_SETUP, nil, enosys, enosys},
		{unix.SYS_CLONE3, nil, enosys, enosys},
		{unix.SYS_OPENAT2, nil, enosys, enosys},
		{unix.SYS_UNSHARE, nil, eperm, eperm},
		{unix.SYS_SETNS, nil, eperm, eperm},
		{unix.SYS_MOUNT, nil, eperm, eperm},
		{newest, nil, allow, allow},
		{newest + 1, nil, enosys, enosys},
		{0x40000000, nil, enosys, enosys}, // x32's read
		{unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, allow, allow},
		{unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_THREAD}, allow, allow},
		{unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, eperm, eperm},
		{unix.SYS_CLONE, []uint64{unix.CLONE_NEWNET}, eperm, eperm},
		{unix.SYS_FCHMODAT, []uint64{at, 1, 0o755}, allow, eperm},
		{unix.SYS_FCHMODAT, []uint64{at, 1, 0o4755}, eperm, eperm},
		{unix.SYS_FCHMODAT2, []uint64{at, 1, 0o2755}, eperm, eperm},
		{unix.SYS_FCHMOD, []uint64{3, 0o755}, allow, allow},
		{unix.SYS_FCHMOD, []uint64{3, 0o6755}, eperm, eperm},
		{unix.SYS_OPENAT, []uint64{at, 1, unix.O_CREAT, 0o644}, allow, allow},
		{unix.SYS_OPENAT, []uint64{at, 1, unix.O_CREAT, 0o4644}, eperm, eperm},
		{unix.SYS_MKNODAT, []uint64{at, 1, unix.S_IFIFO | 0o644}, allow, allow},
		{unix.SYS_MKNODAT, []uint64{at, 1, unix.S_IFBLK | 0o644}, eperm, eperm},
		{unix.SYS_MKNODAT, []uint64{at, 1, unix.S_IFCHR}, eperm, eperm},
		{unix.SYS_SOCKET, []uint64{unix.AF_UNIX, 1}, allow, eperm},
		{unix.SYS_SOCKET, []uint64{unix.AF_INET, 1}, allow, eperm},
		{unix.SYS_SOCKET, []uint64{unix.AF_INET6, 1}, allow, eperm},
		{unix.SYS_SOCKET, []uint64{unix.AF_VSOCK, 1}, noFamily, eperm},
		{unix.SYS_SOCKET, []uint64{unix.AF_ALG, 1}, noFamily, eperm},
		{unix.SYS_SOCKET, []uint64{unix.AF_PACKET, 1}, noFamily, eperm},
		{unix.SYS_SOCKET, []uint64{1000, 1}, noFamily, eperm},
		{unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, 1}, allow, allow},
		{unix.SYS_IOCTL, []uint64{0, unix.TCGETS}, allow, allow},
		{unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, eperm, eperm},
		{unix.SYS_IOCTL, []uint64{0, 1<<32 | unix.TIOCSTI}, eperm, eperm},
		{unix.SYS_PERSONALITY, []uint64{0}, allow, allow},
		{unix.SYS_PERSONALITY, []uint64{0x0400000}, eperm, eperm},
		{unix.SYS_SETSID, nil, allow, eperm},
		{unix.SYS_SETPGID, nil, allow, eperm},
		{unix.SYS_PRLIMIT64, []uint64{0, 7}, allow, allow},
		{unix.SYS_PRLIMIT64, []uint64{1, 7}, allow, eperm},
		{unix.SYS_SCHED_SETAFFINITY, []uint64{0}, allow, allow},
		{unix.SYS_SCHED_SETAFFINITY, []uint64{77}, allow, eperm},
		{unix.SYS_UTIMENSAT, []uint64{3, 0}, allow, allow},
		{unix.SYS_UTIMENSAT, []uint64{at, 0x7fff12345678}, allow, eperm},
		{unix.SYS_UTIMENSAT, []uint64{at, 0x7fff00000000}, allow, eperm},
		{unix.SYS_FCHOWNAT, []uint64{at, 1}, allow, eperm},
		{unix.SYS_SETXATTR, nil, allow, eperm},
		{unix.SYS_SHMGET, nil, allow, eperm},
	} {
		name := fmt.Sprintf("call %d %#x", c.nr, c.args)
		if got := evaluate(t, wide, auditArch, c.nr, c.args...); got != c.wide {
			t.Errorf("%s: %#x with namespaces, want %#x", name, got, c.wide)
		}
		if got := evaluate(t, tight, auditArch, c.nr, c.args...); got != c.tight {
			t.Errorf("%s: %#x without namespaces, want %#x", name, got, c.tight)
		}
	}
	for _, arch := range []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, 0} {
		if got := evaluate(t, wide, arch, unix.SYS_READ); got != unix.SECCOMP_RET_KILL_PROCESS {
			t.Errorf("architecture %#x: %#x", arch, got)
		}
	}
	if _, err := program(always(unix.EPERM, newest+1)); err == nil {
		t.Error("a call that the filter can't reach was taken")
	}
}
