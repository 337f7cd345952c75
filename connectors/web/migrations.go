package web

import (
	"embed"
	"io/fs"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations are the place's own tables, in order of their file names.
var Migrations = must(fs.Sub(migrationFiles, "migrations"))

func must[T any](v T, err error) T {
	if err != nil {
		panic("web: embedded files: " + err.Error())
	}
	return v
}
