package service

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"sightline/cmd/local/testenv"
	"sightline/connectors/chat"
	"sightline/workflows"
)

// A Temporal of somebody else's gets the attributes that it lacks, once, and
// takes starts that name them as soon as we say so.
func TestAttributesAreRegistered(t *testing.T) {
	addr, ns := testenv.Temporal(t)
	tc, err := client.Dial(client.Options{HostPort: addr, Namespace: ns})
	if err != nil {
		t.Fatal(err)
	}
	defer tc.Close()
	if err := ensureAttributes(t.Context(), tc, ns); err != nil {
		t.Fatal(err)
	}
	if missing, err := missingAttributes(t.Context(), tc, ns); err != nil || len(missing) != 0 {
		t.Errorf("missing %v, %v", missing, err)
	}
	// The second time there is nothing to add, and nothing to wait for.
	sealed := locked{Client: tc, OperatorServiceClient: tc.OperatorService()}
	if err := ensureAttributes(t.Context(), sealed, ns); err != nil {
		t.Errorf("the second time: %v", err)
	}
	office := newOffice(t)
	place := chat.NewPlace("a", "test", "w", t.Name(), "", chat.Channel)
	g := &workflows.Ingress{DB: office.db, Client: tc, Visible: func() bool { return true }}
	event := chat.Event{Kind: chat.MessagePosted, Place: place, Message: chat.Message{NativeID: "m1", Revision: "1", Text: "hello", At: time.Now(), Author: chat.Actor{Platform: "test", User: "u"}}}
	if err := g.Deliver(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	id := string(place.Conversation())
	d, err := tc.DescribeWorkflow(t.Context(), id, "")
	if err != nil {
		t.Fatal(err)
	}
	have := d.RawResponse.WorkflowExecutionInfo.SearchAttributes.GetIndexedFields()
	for name := range workflows.SearchAttributes() {
		if have[name] == nil {
			t.Errorf("the conversation has no %s", name)
		}
	}
	if err := tc.TerminateWorkflow(t.Context(), id, "", "test over"); err != nil {
		t.Error(err)
	}
}

// locked is a Temporal that takes no more attributes.
type locked struct {
	client.Client
	operatorservice.OperatorServiceClient
}

func (l locked) OperatorService() operatorservice.OperatorServiceClient { return l }

func (locked) AddSearchAttributes(context.Context, *operatorservice.AddSearchAttributesRequest, ...grpc.CallOption) (*operatorservice.AddSearchAttributesResponse, error) {
	return nil, serviceerror.NewPermissionDenied("they are there already", "")
}

// closed is a Temporal whose operator lets nobody change the namespace.
type closed struct {
	client.Client
	operatorservice.OperatorServiceClient
	err error
}

func (c closed) OperatorService() operatorservice.OperatorServiceClient { return c }

func (c closed) ListSearchAttributes(context.Context, *operatorservice.ListSearchAttributesRequest, ...grpc.CallOption) (*operatorservice.ListSearchAttributesResponse, error) {
	return &operatorservice.ListSearchAttributesResponse{}, nil
}

func (c closed) AddSearchAttributes(context.Context, *operatorservice.AddSearchAttributesRequest, ...grpc.CallOption) (*operatorservice.AddSearchAttributesResponse, error) {
	return nil, c.err
}

// One that does not let us is told of in one line with the command that its
// operator needs; the service goes on without attributes.
func TestAttributesMayBeForbidden(t *testing.T) {
	var said strings.Builder
	told := make(chan struct{}, 1)
	s := &service{log: slog.New(slog.NewTextHandler(io.Discard, nil)), o: Options{Env: func(string) string { return "" }}}
	s.say = func(format string, args ...any) {
		said.WriteString(strings.ReplaceAll(format, "%v", args[0].(error).Error()))
		told <- struct{}{}
	}
	v := s.attributes(closed{err: serviceerror.NewPermissionDenied("no", "")})
	<-told
	s.close()
	if v.ok.Load() {
		t.Error("workflows would name attributes that are not there")
	}
	for _, want := range []string{"carry no search attributes", "temporal operator search-attribute create", "--name SightlineState --type Keyword", "--name SightlineAttachments --type Int"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is not said: %s", want, said.String())
		}
	}
}
