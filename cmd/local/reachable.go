package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ReachableDir answers the folder name below the state directory home, or, for root, one elsewhere that other users can
// get to: a state directory is its owner's alone, and what runs in the sandbox is nobody's. It is not made.
func ReachableDir(home, name string) (string, error) {
	dir := filepath.Join(home, name)
	if os.Geteuid() != 0 || reachable(home, &syscall.Credential{Uid: 1<<32 - 2, Gid: 1<<32 - 2}) {
		return dir, nil
	}
	sum := sha256.Sum256([]byte(home))
	var failed error
	for _, parent := range basesElsewhere {
		err := mkPublic(parent)
		if err == nil {
			return filepath.Join(parent, hex.EncodeToString(sum[:8])+"-"+name), nil
		}
		failed = errors.Join(failed, err)
	}
	return "", fmt.Errorf("find a folder for %s: %w", name, failed)
}
