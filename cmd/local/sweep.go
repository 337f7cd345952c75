package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Sweep removes the folder of a service whose process was killed, and ends a server that outlived it. It fails when the
// folder is in use, and refuses one that is not a service's or not ours. Never call it on data that somebody wants.
func Sweep(dir string) error {
	if err := sweepable(dir); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	lock, err := tryLock(filepath.Join(dir, "lock"))
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	defer lock.release()
	base := filepath.Join(dir, "server")
	if real, err := filepath.EvalSymlinks(base); err == nil && real != base && slices.Contains(basesElsewhere, filepath.Dir(real)) {
		base = real
	}
	data := filepath.Join(base, "data")
	pid, sock, ok := readPostmaster(filepath.Join(data, "postmaster.pid"))
	if ok && alive(pid) && mayServe(pid, data) {
		adoptProc(pid).end(context.Background(), []stopStep{{syscall.SIGQUIT, 10 * time.Second}, {syscall.SIGKILL, 10 * time.Second}})
	}
	if ok && isShortSocketDir(sock) {
		err = os.RemoveAll(sock)
	}
	return errors.Join(err, os.RemoveAll(base), os.RemoveAll(dir))
}

// sweepable refuses what somebody else may have put in our way, such as a link to something dear in the folder of all
// temporary folders.
func sweepable(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not a folder that only we can change", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == "lock" {
			return nil
		}
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not the folder of a service", dir)
	}
	return nil
}
