package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch     = unix.AUDIT_ARCH_X86_64
	cloneFlagsArg = 0
)

// commonArch has the calls that only this architecture has.
func commonArch() []denial {
	const ids = unix.S_ISUID | unix.S_ISGID
	d := always(unix.EPERM, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_CREATE_MODULE)
	for _, kind := range []uint32{unix.S_IFCHR, unix.S_IFBLK} {
		d = append(d, when(test{arg: 1, mask: unix.S_IFMT, value: kind}, unix.SYS_MKNOD)...)
	}
	d = append(d, when(test{arg: 1, mask: ids, not: true}, unix.SYS_CHMOD, unix.SYS_CREAT, unix.SYS_MKDIR, unix.SYS_MKNOD)...)
	return append(d, when(test{arg: 2, mask: ids, not: true}, unix.SYS_OPEN)...)
}

func bareArch() []denial {
	return always(unix.EPERM, unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT)
}
