package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch     = unix.AUDIT_ARCH_AARCH64
	cloneFlagsArg = 0
)

// commonArch has the calls that only this architecture has: none, all its calls are the newer ones.
func commonArch() []denial { return nil }

func bareArch() []denial { return nil }
