package local

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write devserver.sum anew")

func TestDevserverSum(t *testing.T) {
	sum, err := sourcesSum(filepath.Join("..", "devserver"))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("devserver.sum", []byte(sum+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if sum != strings.TrimSpace(devserverSum) {
		t.Fatal("cmd/devserver was changed: run go test ./cmd/local -run TestDevserverSum -update")
	}
}
