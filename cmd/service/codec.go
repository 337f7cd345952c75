package service

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"

	"sightline/workflows"
)

// encrypted is how a payload says that it is ours, and with which key.
const (
	encodingKey  = converter.MetadataEncoding
	encrypted    = "binary/encrypted"
	encryptedKey = "sightline-key"
)

// codec encrypts what Temporal stores of payloads, memos, summaries and
// failures. The first key encrypts, all of them decrypt: a new key goes in
// front, and the old one may go once no workflow of its time is left. What was
// stored before there was a key stays readable.
type codec struct {
	first string
	keys  map[string]cipher.AEAD // by the ID that follows from the key
}

var _ converter.PayloadCodec = (*codec)(nil)

// readKeys is nil without keys. Its errors never repeat one.
func readKeys(v string) (*codec, error) {
	if strings.TrimSpace(v) == "" {
		return nil, nil
	}
	c := &codec{keys: map[string]cipher.AEAD{}}
	for n, s := range strings.Split(v, ",") {
		key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s))
		if err != nil || len(key) != 32 {
			return nil, fmt.Errorf("SIGHTLINE_TEMPORAL_KEY: key %d is not 32 bytes in base64; `openssl rand -base64 32` makes one", n+1)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("SIGHTLINE_TEMPORAL_KEY: key %d: %w", n+1, err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, fmt.Errorf("SIGHTLINE_TEMPORAL_KEY: key %d: %w", n+1, err)
		}
		sum := sha256.Sum256(append([]byte("sightline temporal key\x00"), key...))
		id := hex.EncodeToString(sum[:4])
		if c.first == "" {
			c.first = id
		}
		c.keys[id] = aead
	}
	return c, nil
}

// Encode encrypts whole payloads, so that their type does not show either.
func (c *codec) Encode(in []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(in))
	for i, p := range in {
		b, err := proto.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("encrypt payload: %w", err)
		}
		aead := c.keys[c.first]
		nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(b)+aead.Overhead())
		rand.Read(nonce) // never fails
		out[i] = &commonpb.Payload{
			Metadata: map[string][]byte{encodingKey: []byte(encrypted), encryptedKey: []byte(c.first)},
			Data:     aead.Seal(nonce, nonce, b, []byte(c.first)),
		}
	}
	return out, nil
}

// Decode decrypts what is encrypted.
func (c *codec) Decode(in []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(in))
	for i, p := range in {
		if string(p.GetMetadata()[encodingKey]) != encrypted {
			out[i] = p
			continue
		}
		if err := c.has(p); err != nil {
			return nil, err
		}
		id := string(p.Metadata[encryptedKey])
		aead := c.keys[id]
		if len(p.Data) < aead.NonceSize() {
			return nil, errors.New("decrypt payload: it is cut off")
		}
		b, err := aead.Open(nil, p.Data[:aead.NonceSize()], p.Data[aead.NonceSize():], []byte(id))
		if err != nil {
			return nil, fmt.Errorf("decrypt payload with key %s: it was changed", id)
		}
		out[i] = &commonpb.Payload{}
		if err := proto.Unmarshal(b, out[i]); err != nil {
			return nil, fmt.Errorf("decrypt payload: %w", err)
		}
	}
	return out, nil
}

// has reports whether a payload can be read. A nil codec has no keys.
func (c *codec) has(p *commonpb.Payload) error {
	if string(p.GetMetadata()[encodingKey]) != encrypted {
		return nil
	}
	id := string(p.Metadata[encryptedKey])
	if c == nil {
		return fmt.Errorf("workflows are encrypted with key %s, and SIGHTLINE_TEMPORAL_KEY is not set", shortID(id))
	}
	if c.keys[id] == nil {
		return fmt.Errorf("workflows are encrypted with key %s, which is not in SIGHTLINE_TEMPORAL_KEY: add it after the new one, with a comma", shortID(id))
	}
	return nil
}

// shortID bounds an ID that somebody else may have written.
func shortID(id string) string { return text(clip(id, 16)).Text }

// encrypt makes a client use the codec, for failures too: their messages
// would otherwise stay readable.
func (c *codec) encrypt(o client.Options) client.Options {
	if c == nil {
		return o
	}
	o.DataConverter = converter.NewCodecDataConverter(o.DataConverter, c)
	o.FailureConverter = temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
		DataConverter: o.DataConverter, EncodeCommonAttributes: true,
	})
	return o
}

// readable looks at the memos of some running conversations before work is
// taken up: with a wrong key every one of them would fail, again and again.
// A Temporal that can't be asked is no reason not to start.
func (c *codec) readable(ctx context.Context, tc client.Client, namespace string) error {
	list, err := tc.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: namespace, PageSize: 20, Query: "WorkflowType = '" + workflows.ConversationType + "' AND ExecutionStatus = 'Running'",
	})
	if err != nil {
		return nil
	}
	for _, e := range list.Executions {
		for _, p := range e.GetMemo().GetFields() {
			if err := c.has(p); err != nil {
				return err
			}
		}
	}
	return nil
}
