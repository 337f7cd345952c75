package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// decode is strict: an argument that is silently dropped would make the
// model believe that it was honoured.
func decode(arguments string, into any) error {
	if strings.TrimSpace(arguments) == "" {
		arguments = "{}"
	}
	d := json.NewDecoder(bytes.NewReader([]byte(arguments)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("the arguments do not fit the tool's schema: %s", reason(err))
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("the arguments are more than one JSON object")
	}
	return nil
}

// reason keeps the decoder's words short and without the model's own text.
func reason(err error) string {
	s := strings.TrimPrefix(err.Error(), "json: ")
	if len(s) > 120 {
		s = s[:120]
	}
	return s
}

func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("tools: answer does not marshal: " + err.Error()) // answers are plain structs
	}
	return strings.TrimSpace(b.String())
}
