package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

// attributeFlag is a list of search attributes as a flag: name=Type,name=Type.
type attributeFlag map[string]enums.IndexedValueType

var attributeName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// Set adds to what is there, so that the flag may be repeated.
func (a *attributeFlag) Set(s string) error {
	if *a == nil {
		*a = attributeFlag{}
	}
	for _, kv := range strings.Split(s, ",") {
		if kv = strings.TrimSpace(kv); kv == "" {
			continue
		}
		name, kind, ok := strings.Cut(kv, "=")
		if !ok || !attributeName.MatchString(name) {
			return fmt.Errorf("%q is not name=Type", kv)
		}
		t, err := enums.IndexedValueTypeFromString(kind)
		if err != nil || t == enums.INDEXED_VALUE_TYPE_UNSPECIFIED {
			return fmt.Errorf("%q is not a type of search attribute", kind)
		}
		if old, ok := (*a)[name]; ok && old != t {
			return fmt.Errorf("%s has two types", name)
		}
		(*a)[name] = t
	}
	return nil
}

func (a *attributeFlag) String() string {
	if a == nil {
		return ""
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(*a)) {
		out = append(out, name+"="+(*a)[name].String())
	}
	return strings.Join(out, ",")
}

// ensureAttributes waits for the server to answer and adds the search attributes that the namespace does not have: it was
// made with those of its first start, and a newer Sightline may want more.
func ensureAttributes(ctx context.Context, address, namespace string, want attributeFlag) error {
	quiet := sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	c, err := client.NewLazyClient(client.Options{HostPort: address, Namespace: namespace, Logger: quiet})
	if err != nil {
		return fmt.Errorf("connect to own server: %w", err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	// The UI and the operator's tools read both of these, so both must answer before the server is called ready.
	have, err := retry(ctx, func() (*operatorservice.ListSearchAttributesResponse, error) {
		if _, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace}); err != nil {
			return nil, err
		}
		return c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	})
	if err != nil {
		return fmt.Errorf("wait for server: %w", err)
	}
	missing := map[string]enums.IndexedValueType{}
	for name, t := range want {
		switch old, ok := have.GetCustomAttributes()[name]; {
		case !ok:
			missing[name] = t
		case old != t:
			return fmt.Errorf("search attribute %s is a %v already, not a %v", name, old, t)
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
	return awaitAttributes(ctx, c, namespace, slices.Collect(maps.Keys(missing)))
}

// awaitAttributes returns once every service of the server knows the names. Each refreshes its own copy of the namespace
// now and then; when one that can be asked knows, the others do after as long again.
func awaitAttributes(ctx context.Context, c client.Client, namespace string, names []string) error {
	for _, name := range names {
		_, err := retry(ctx, func() (*workflowservice.CountWorkflowExecutionsResponse, error) {
			return c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: namespace, Query: name + " IS NULL"})
		})
		if err != nil {
			return fmt.Errorf("wait for search attribute %s: %w", name, err)
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(namespaceRefresh + namespaceRefresh/4):
		return nil
	}
}

func retry[T any](ctx context.Context, f func() (T, error)) (T, error) {
	for {
		v, err := f()
		if err == nil {
			return v, nil
		}
		select {
		case <-ctx.Done():
			return v, errors.Join(ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
