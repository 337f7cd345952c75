package main

import (
	"database/sql"
	"fmt"
	"net/url"
	"strings"

	_ "modernc.org/sqlite" // the driver that the server uses too
)

// indexes are those of the table of workflows that the Web UI's and an operator's questions need: by time, state, type, ID
// and family. Those of the attributes that the namespace was made with join them.
var indexes = map[string]bool{
	"default_idx": true, "by_execution_time": true, "by_status": true, "by_workflow_type": true, "by_workflow_id": true,
	"by_parent_workflow_id": true, "by_root_workflow_id": true,
}

// thinIndexes drops the other indexes of a new database. The schema has 63, one for each attribute that anybody could ever
// use, and all are kept up to date at each record of a workflow's state: that was a tenth of the server's time. An index
// makes a question quicker and changes no answer. fields are the columns of the namespace's attributes; those of
// attributes that a later version adds have none.
func thinIndexes(db string, fields map[string]string) error {
	store, err := sql.Open("sqlite", "file:"+(&url.URL{Path: db}).EscapedPath())
	if err != nil {
		return fmt.Errorf("drop indexes: %w", err)
	}
	defer store.Close()
	rows, err := store.Query(`SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'executions_visibility' AND sql IS NOT NULL`)
	if err != nil {
		return fmt.Errorf("drop indexes: %w", err)
	}
	var drop []string
	for rows.Next() {
		var name, def string
		if err := rows.Scan(&name, &def); err != nil {
			rows.Close()
			return fmt.Errorf("drop indexes: %w", err)
		}
		keep := indexes[name]
		for field := range fields {
			keep = keep || strings.Contains(def, "(namespace_id, "+field+",")
		}
		if !keep {
			drop = append(drop, name)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("drop indexes: %w", err)
	}
	for _, name := range drop {
		if _, err := store.Exec(`DROP INDEX "` + name + `"`); err != nil {
			return fmt.Errorf("drop indexes: %w", err)
		}
	}
	return nil
}
