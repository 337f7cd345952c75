package service

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"sightline/workflows"
)

func key(b byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) }

func keys(t *testing.T, list ...string) *codec {
	t.Helper()
	c, err := readKeys(strings.Join(list, ","))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A new key in front encrypts, and what the old one encrypted is still read;
// without the old one the error names it; what was stored before is readable.
func TestCodecRotatesKeys(t *testing.T) {
	old, both, other := keys(t, key(1)), keys(t, key(2), key(1)), keys(t, key(3))
	plain, err := workflows.DataConverter().ToPayload(workflows.MessageSignal{Message: "msg_secret"})
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := old.Encode([]*commonpb.Payload{plain})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(sealed[0].String(), "msg_secret") || strings.Contains(sealed[0].String(), "json") {
		t.Errorf("readable: %v", sealed[0])
	}
	if again, _ := old.Encode([]*commonpb.Payload{plain}); bytes.Equal(again[0].Data, sealed[0].Data) {
		t.Error("the same payload looks the same twice")
	}
	for name, c := range map[string]*codec{"the same key": old, "rotated": both} {
		got, err := c.Decode(sealed)
		var m workflows.MessageSignal
		if err == nil {
			err = workflows.DataConverter().FromPayload(got[0], &m)
		}
		if err != nil || m.Message != "msg_secret" {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	if s, _ := both.Encode([]*commonpb.Payload{plain}); string(s[0].Metadata[encryptedKey]) == old.first {
		t.Error("the old key still encrypts")
	}
	if _, err := other.Decode(sealed); err == nil || !strings.Contains(err.Error(), "key "+old.first+", which is not in SIGHTLINE_TEMPORAL_KEY") {
		t.Errorf("a wrong key: %v", err)
	}
	if err := (*codec)(nil).has(sealed[0]); err == nil || !strings.Contains(err.Error(), "SIGHTLINE_TEMPORAL_KEY is not set") {
		t.Errorf("no key: %v", err)
	}
	if got, err := both.Decode([]*commonpb.Payload{plain}); err != nil || !bytes.Equal(got[0].Data, plain.Data) {
		t.Errorf("from before there was a key: %v, %v", got, err)
	}
	for i := range sealed[0].Data {
		bad := &commonpb.Payload{Metadata: sealed[0].Metadata, Data: bytes.Clone(sealed[0].Data)}
		bad.Data[i] ^= 1
		if _, err := old.Decode([]*commonpb.Payload{bad}); err == nil {
			t.Fatalf("byte %d can be changed unnoticed", i)
		}
	}
	if _, err := old.Decode([]*commonpb.Payload{{Metadata: sealed[0].Metadata, Data: []byte("x")}}); err == nil {
		t.Error("a payload that is cut off is taken")
	}
}

// What a failure says is encrypted as well.
func TestCodecEncryptsFailures(t *testing.T) {
	o := keys(t, key(1)).encrypt(client.Options{DataConverter: workflows.DataConverter()})
	f := o.FailureConverter.ErrorToFailure(temporal.NewApplicationError("can't read payroll.png", "internal"))
	if strings.Contains(f.String(), "payroll") {
		t.Errorf("readable: %v", f)
	}
	if err := o.FailureConverter.FailureToError(f); err == nil || !strings.Contains(err.Error(), "payroll") {
		t.Errorf("not readable for us: %v", err)
	}
	var none *codec
	if o := none.encrypt(client.Options{}); o.DataConverter != nil || o.FailureConverter != nil {
		t.Error("without a key something is encrypted")
	}
}

// A key that is none is one line that does not repeat it.
func TestKeysAreChecked(t *testing.T) {
	for _, v := range []string{"hunter2", key(1) + ",hunter2", base64.StdEncoding.EncodeToString([]byte("hunter2")), key(1) + ","} {
		_, err := ReadConfig(func(k string) string {
			return map[string]string{"SIGHTLINE_TEMPORAL_KEY": v, "SIGHTLINE_HOME": t.TempDir()}[k]
		})
		if err == nil || !strings.Contains(err.Error(), "is not 32 bytes in base64") || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), key(1)) {
			t.Errorf("%q: %v", v, err)
		}
	}
	if c, err := readKeys(" "); c != nil || err != nil {
		t.Errorf("no key: %v, %v", c, err)
	}
}
