package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

// awaitReadyFile waits for the devserver of that process to say that it serves.
func awaitReadyFile(ctx context.Context, path string, pid int) error {
	for {
		b, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read ready file: %w", err)
		}
		if err == nil {
			var r struct {
				PID int `json:"pid"`
			}
			if err := json.Unmarshal(b, &r); err != nil {
				return fmt.Errorf("read ready file: %w", err)
			}
			if r.PID == pid {
				return nil
			}
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// ensureNamespace waits for the server to answer for the namespace, and adds the search attributes that it lacks. The
// devserver has done so by itself; the Temporal CLI gives them to new namespaces only.
func ensureNamespace(ctx context.Context, address, namespace string, attributes map[string]string) error {
	c, err := client.NewLazyClient(client.Options{
		HostPort: address, Namespace: namespace, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer c.Close()
	var have *operatorservice.ListSearchAttributesResponse
	for {
		_, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
		if err == nil {
			have, err = c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
		}
		if err == nil {
			break
		}
		if sleep(ctx, 25*time.Millisecond) != nil {
			return fmt.Errorf("ask for namespace %s: %w", namespace, err)
		}
	}
	missing := map[string]enums.IndexedValueType{}
	for name, kind := range attributes {
		want, err := enums.IndexedValueTypeFromString(kind)
		if err != nil {
			return fmt.Errorf("search attribute %s: %w", name, err)
		}
		switch old, ok := have.GetCustomAttributes()[name]; {
		case !ok:
			missing[name] = want
		case old != want:
			return fmt.Errorf("search attribute %s is a %v already, not a %v", name, old, want)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: missing,
	})
	if err != nil {
		return fmt.Errorf("add search attributes: %w", err)
	}
	// Each of the server's services reads the namespace anew every two seconds, and refuses what it doesn't know yet.
	return sleep(ctx, 2500*time.Millisecond)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
