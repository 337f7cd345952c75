package sandbox

import (
	"path"
	"strings"
	"unicode/utf8"
)

const (
	maxPath  = 1024
	maxDepth = 64 // folders in each other; more is refused, so that walking needs few descriptors
)

// inside turns an absolute path below /workspace into one relative to its files. "" is the workspace itself.
func inside(p string) (string, error) {
	no := func(why string) (string, error) {
		return "", refuse(ErrPath, "The path must be absolute, inside of "+Inside+", and without \"..\".", "refuse path %q: %s", p, why)
	}
	switch {
	case len(p) > maxPath:
		return no("too long")
	case strings.ContainsRune(p, 0) || !utf8.ValidString(p):
		return no("not text")
	case !path.IsAbs(p):
		return no("not absolute")
	}
	for _, part := range strings.Split(p, "/") {
		if part == ".." {
			return no("it has a \"..\"")
		}
		if len(part) > 255 {
			return no("a name is too long")
		}
	}
	rel, ok := strings.CutPrefix(path.Clean(p), Inside)
	if !ok || rel != "" && rel[0] != '/' {
		return no("outside")
	}
	rel = strings.TrimPrefix(rel, "/")
	if strings.Count(rel, "/") >= maxDepth {
		return no("too deep")
	}
	return rel, nil
}
