package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"
)

// lockPatience is how long a predecessor may take to notice that it should end, and to end.
const lockPatience = 20 * time.Second

// lockDatabase takes the file's lock, which the kernel releases when the process ends, and writes the process ID in it.
// Two servers on one file would each believe to own every workflow.
func lockDatabase(ctx context.Context, db string) (*os.File, error) {
	f, err := os.OpenFile(db+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock database: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock database: %w", err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("lock database: %s is in use by another devserver", db)
		case <-time.After(50 * time.Millisecond):
		}
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock database: %w", err)
	}
	return f, nil
}

// prepare makes the schema and the namespace if they are not there.
func prepare(o options, c *config.Config) error {
	store := c.Persistence.DataStores[storeName].SQL
	ns, err := sqlite.NewNamespaceConfig(c.ClusterMetadata.CurrentClusterName, o.namespace, false, o.attributes)
	if err != nil {
		return fmt.Errorf("describe namespace: %w", err)
	}
	ns.Detail.Config.Retention = durationpb.New(o.retention)
	// The schema is many statements, and a file with some of them would be taken for a database. The mark outlives a kill
	// in between; its absence never makes a file be thrown away.
	mark := o.db + ".making"
	if _, err := os.Stat(mark); err == nil {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := os.Remove(o.db + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("clear half-made database: %w", err)
			}
		}
	}
	if _, err := os.Stat(o.db); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			return fmt.Errorf("make database: %w", err)
		}
		// SQLite would make it readable by all, as far as the umask allows.
		if err := os.WriteFile(o.db, nil, 0o600); err != nil {
			return fmt.Errorf("make database: %w", err)
		}
		if err := sqlite.SetupSchema(store); err != nil {
			return fmt.Errorf("make database: %w", err)
		}
		if err := thinIndexes(o.db, ns.Detail.Config.CustomSearchAttributeAliases); err != nil {
			return fmt.Errorf("make database: %w", err)
		}
		// The mark goes when the schema would survive the machine, too: SQLite by itself syncs only later.
		if err := errors.Join(syncFile(o.db+"-wal"), syncFile(o.db), os.Remove(mark)); err != nil {
			return fmt.Errorf("make database: %w", err)
		}
	} else if err != nil {
		return fmt.Errorf("find database: %w", err)
	}
	if err := sqlite.CreateNamespaces(store, ns); err != nil {
		return fmt.Errorf("make namespace: %w", err)
	}
	return nil
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
