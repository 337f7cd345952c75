package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// readyFile tells whoever started the server where it is.
type readyFile struct {
	Address   string `json:"address"`
	UI        string `json:"ui,omitempty"`
	Namespace string `json:"namespace"`
	PID       int    `json:"pid"`
}

// write puts the whole file in place at once: a reader finds all of it or none.
func (r readyFile) write(path string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write ready file: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".ready-")
	if err != nil {
		return fmt.Errorf("write ready file: %w", err)
	}
	defer os.Remove(f.Name()) // gone already when all went well
	_, err = f.Write(append(b, '\n'))
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write ready file: %w", err)
	}
	return nil
}
