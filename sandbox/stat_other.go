//go:build !linux

package sandbox

import "golang.org/x/sys/unix"

func entryOf(st *unix.Stat_t) entry {
	return entry{mode: uint32(st.Mode), size: st.Size, blocks: st.Blocks * 512, inode: st.Ino, links: uint64(st.Nlink), changed: st.Ctim}
}
