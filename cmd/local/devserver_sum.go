package local

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// devserverSum is the digest of the sources of cmd/devserver that this program was written with. It names the built
// devserver, so that a program far from its sources finds it, and it keeps a build from running whatever sources the
// working directory happens to have. After a change there, run
//
//	go test ./cmd/local -run TestDevserverSum -update
//
//go:embed devserver.sum
var devserverSum string

// sourcesSum is the digest of what goes into a build of the module in dir.
func sourcesSum(dir string) (string, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return "", fmt.Errorf("read sources: %w", err)
	}
	sum := sha256.New()
	for _, e := range entries {
		name := e.Name()
		code := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		if e.IsDir() || !code && name != "go.mod" && name != "go.sum" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", fmt.Errorf("read sources: %w", err)
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(b))
		_, _ = sum.Write(b) // a hash never fails
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// devserverPath is where the built devserver is or would be.
func devserverPath() (string, error) {
	cache, err := programCache(false)
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(devserverSum)
	if len(key) < 16 {
		return "", fmt.Errorf("find devserver: this program was built without its digest")
	}
	return filepath.Join(cache, fmt.Sprintf("devserver-%s-%s-%s", runtime.GOOS, runtime.GOARCH, key[:16])), nil
}

// devserverSources answers the folder of sources with our digest: beside this file, if it is still where the compiler
// saw it, or in the checkout that the working directory is in. Otherwise it answers why not.
func devserverSources() (dir string, why []string) {
	var dirs []string
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		dirs = append(dirs, filepath.Join(filepath.Dir(filepath.Dir(file)), "devserver"))
	}
	if wd, err := os.Getwd(); err == nil {
		for d := wd; ; d = filepath.Dir(d) {
			if isModule(filepath.Join(d, "go.mod"), "sightline") {
				dirs = append(dirs, filepath.Join(d, "cmd", "devserver"))
				break
			}
			if d == filepath.Dir(d) {
				break
			}
		}
	}
	for _, d := range dirs {
		if !isModule(filepath.Join(d, "go.mod"), "sightline/cmd/devserver") {
			continue
		}
		sum, err := sourcesSum(d)
		switch {
		case err != nil:
			why = append(why, err.Error())
		case sum != strings.TrimSpace(devserverSum):
			why = append(why, "the sources in "+d+" are not the ones of this program (after a change there: go test ./cmd/local -run TestDevserverSum -update)")
		default:
			return d, nil
		}
	}
	if why == nil {
		why = []string{"the sources of cmd/devserver are not here"}
	}
	return "", why
}

func isModule(gomod, name string) bool {
	f, err := os.Open(gomod)
	if err != nil {
		return false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1<<16))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "module" {
			return f[1] == name
		}
	}
	return false
}

// dropUnused removes devservers of other versions that nobody has started for a month: they are large.
func dropUnused(keep string) {
	all, err := filepath.Glob(filepath.Join(filepath.Dir(keep), "devserver-*"))
	if err != nil {
		return
	}
	for _, path := range all {
		info, err := os.Stat(path)
		if err == nil && path != keep && !strings.HasSuffix(path, ".lock") && time.Since(info.ModTime()) > 30*24*time.Hour {
			_ = os.Remove(path) // it stays, then
		}
	}
}
