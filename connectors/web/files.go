package web

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// files keeps the bytes of uploads: one file each, named by the upload's id.
// A file appears whole or not at all.
type files struct{ dir string }

func openFiles(dir string) (files, error) {
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o700); err != nil {
		return files{}, fmt.Errorf("create folder for uploads: %w", err)
	}
	return files{dir: dir}, nil
}

func (f files) path(id string) (string, error) {
	if !isID(uploadPrefix, id) {
		return "", fmt.Errorf("not an upload id")
	}
	return filepath.Join(f.dir, id[len(uploadPrefix):len(uploadPrefix)+2], id), nil
}

func (f files) open(id string) (*os.File, error) {
	p, err := f.path(id)
	if err != nil {
		return nil, err
	}
	return os.Open(p)
}

// receive copies at most max+1 bytes to a temporary file, so that the caller
// can tell a file at the limit from one over it.
func (f files) receive(r io.Reader, max int64) (tmp string, n int64, err error) {
	t, err := os.CreateTemp(filepath.Join(f.dir, "tmp"), "in-*")
	if err != nil {
		return "", 0, fmt.Errorf("store upload: %w", err)
	}
	defer func() {
		if err != nil {
			os.Remove(t.Name())
		}
	}()
	defer t.Close()
	if n, err = io.Copy(t, io.LimitReader(r, max+1)); err != nil {
		return "", 0, fmt.Errorf("receive upload: %w", err)
	}
	if err = t.Sync(); err != nil {
		return "", 0, fmt.Errorf("store upload: %w", err)
	}
	return t.Name(), n, nil
}

// keep gives a received file its name for good.
func (f files) keep(tmp, id string) error {
	p, err := f.path(id)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
		return fmt.Errorf("store upload: %w", err)
	}
	if err := os.Rename(tmp, p); err != nil {
		return fmt.Errorf("store upload: %w", err)
	}
	if err := syncDir(filepath.Dir(p)); err != nil {
		return err
	}
	return syncDir(f.dir) // the folder may be new
}

func (f files) remove(id string) error {
	p, err := f.path(id)
	if err != nil {
		return err
	}
	if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove upload: %w", err)
	}
	return nil
}

// older lists the stored ids, and the temporary files, last written before t.
func (f files) older(t time.Time) (ids, temps []string, err error) {
	dirs, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list uploads: %w", err)
	}
	for _, d := range dirs {
		entries, err := os.ReadDir(filepath.Join(f.dir, d.Name()))
		if err != nil {
			return nil, nil, fmt.Errorf("list uploads: %w", err)
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || !info.ModTime().Before(t) {
				continue // removed meanwhile, or too young to judge
			}
			switch {
			case d.Name() == "tmp":
				temps = append(temps, filepath.Join(f.dir, "tmp", e.Name()))
			case isID(uploadPrefix, e.Name()):
				ids = append(ids, e.Name())
			}
		}
	}
	return ids, temps, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}

// writeFile replaces path with b, readable by the owner only, whole or not.
func writeFile(path string, b []byte) error {
	t, err := os.CreateTemp(filepath.Dir(path), ".tmp-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(t.Name())
	_, err = t.Write(b)
	err = errors.Join(err, t.Sync(), t.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(t.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}
