package sandbox

import (
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A FileKind says what a name in a workspace stands for. Only regular files can be viewed.
type FileKind string

// The kinds of files.
const (
	Regular FileKind = "file"
	Folder  FileKind = "folder"
	Link    FileKind = "link"
	FIFO    FileKind = "fifo"
	Socket  FileKind = "socket"
	Device  FileKind = "device"
)

func (e entry) fileKind() FileKind {
	switch e.kind() {
	case unix.S_IFREG:
		return Regular
	case unix.S_IFDIR:
		return Folder
	case unix.S_IFLNK:
		return Link
	case unix.S_IFIFO:
		return FIFO
	case unix.S_IFSOCK:
		return Socket
	}
	return Device
}

// A ChangeKind says what became of a file.
type ChangeKind string

// The kinds of changes.
const (
	Added    ChangeKind = "added"
	Modified ChangeKind = "modified"
	Removed  ChangeKind = "removed"
)

// A Change is what a command did to one file. Folders are not listed.
type Change struct {
	Path string // absolute, below /workspace
	What ChangeKind
	Kind FileKind
	Size int64 // now; of a removed file, before
}

// maxChanges bounds a result; a command that unpacks an archive is summed up by their number.
const maxChanges = 200

func changes(before, after map[string]entry) (list []Change, total int) {
	add := func(rel string, what ChangeKind, e entry) {
		list = append(list, Change{Path: path.Join(Inside, rel), What: what, Kind: e.fileKind(), Size: e.size})
	}
	for rel, now := range after {
		was, ok := before[rel]
		switch {
		case !ok:
			add(rel, Added, now)
		case was.inode != now.inode || was.changed != now.changed || was.size != now.size || was.mode != now.mode:
			add(rel, Modified, now)
		}
	}
	for rel, was := range before {
		if _, ok := after[rel]; !ok {
			add(rel, Removed, was)
		}
	}
	slices.SortFunc(list, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	total = len(list)
	return list[:min(total, maxChanges)], total
}
