package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"sightline/workflows"
)

// visible keeps whether workflows may carry search attributes.
type visible struct{ ok atomic.Bool }

// attributes makes sure of the search attributes beside everything else, and
// tells once they are there. A Temporal that does not let us add them is no
// reason not to answer people: conversations that begin meanwhile, or for
// ever, are simply not found by attribute.
func (s *service) attributes(tc client.Client) *visible {
	v := &visible{}
	namespace := s.namespace()
	look, stop := context.WithTimeout(context.Background(), 3*time.Second)
	defer stop()
	if missing, err := missingAttributes(look, tc, namespace); err == nil && len(missing) == 0 {
		v.ok.Store(true)
		return v
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	s.later(func(context.Context) { cancel(); <-done })
	go func() {
		defer close(done)
		for told := false; ; told = true {
			err := ensureAttributes(ctx, tc, namespace)
			if err == nil {
				v.ok.Store(true)
				return
			}
			if ctx.Err() == nil && !told {
				s.log.Warn("workflows carry no search attributes", "error", err)
				s.say("workflows carry no search attributes: %v", err)
			}
			// An operator may add them meanwhile.
			if idle(ctx, 5*time.Minute) != nil {
				return
			}
		}
	}()
	return v
}

// namespace is the one that workflows run in, managed or not.
func (s *service) namespace() string {
	if s.c.TemporalSet {
		if o, err := temporalOptions(s.o.Env); err == nil && o.Namespace != "" {
			return o.Namespace
		}
	}
	return namespace(s.o.Env)
}

// attributePatience is how long a server may take until every part of it
// knows a new attribute.
const attributePatience = 3 * time.Minute

// ensureAttributes adds those that the namespace lacks, and returns once they
// can be asked for.
func ensureAttributes(ctx context.Context, tc client.Client, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, attributePatience)
	defer cancel()
	missing, err := missingAttributes(ctx, tc, namespace)
	if err != nil || len(missing) == 0 {
		return err
	}
	_, err = tc.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: missing})
	var there *serviceerror.AlreadyExists // another process was faster
	if err != nil && !errors.As(err, &there) {
		return attributeError("add "+strings.Join(slices.Sorted(maps.Keys(missing)), ", "), err)
	}
	return awaitAttributes(ctx, tc, namespace, slices.Collect(maps.Keys(missing)))
}

func missingAttributes(ctx context.Context, tc client.Client, namespace string) (map[string]enums.IndexedValueType, error) {
	have, err := tc.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return nil, attributeError("list search attributes", err)
	}
	missing := map[string]enums.IndexedValueType{}
	for name, kind := range workflows.SearchAttributes() {
		want, err := enums.IndexedValueTypeFromString(kind)
		if err != nil {
			return nil, fmt.Errorf("search attribute %s: %w", name, err)
		}
		switch old, ok := have.GetCustomAttributes()[name]; {
		case !ok:
			missing[name] = want
		case old != want:
			return nil, fmt.Errorf("search attribute %s is a %v there, and not a %v; another program uses the name", name, old, want)
		}
	}
	return missing, nil
}

// awaitAttributes: each of a server's services reads the namespace anew now
// and then. Once the one that can be asked knows, the others are given as
// long again: a start that names what its server does not know is refused.
func awaitAttributes(ctx context.Context, tc client.Client, namespace string, names []string) error {
	began := time.Now()
	for _, name := range names {
		for {
			_, err := tc.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: namespace, Query: name + " IS NULL"})
			if err == nil {
				break
			}
			if idle(ctx, 250*time.Millisecond) != nil {
				return attributeError("wait for search attribute "+name, err)
			}
		}
	}
	return idle(ctx, max(time.Since(began), 2500*time.Millisecond))
}

func idle(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// attributeError says what an operator can do about it.
func attributeError(op string, err error) error {
	var denied *serviceerror.PermissionDenied
	var no *serviceerror.Unimplemented
	if errors.As(err, &denied) || errors.As(err, &no) {
		return fmt.Errorf("%s: this Temporal does not let us; have its operator add them: %s", op, registerCommand())
	}
	return fmt.Errorf("%s: %w", op, err)
}

// registerCommand is what an operator of that Temporal would type.
func registerCommand() string {
	var b strings.Builder
	b.WriteString("temporal operator search-attribute create")
	all := workflows.SearchAttributes()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, " --name %s --type %s", name, all[name])
	}
	return b.String()
}
