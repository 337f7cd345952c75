package agent_test

import (
	"testing"

	"sightline/agent"
	"sightline/agent/tools"
)

// A name that no tool has is the model's own words, and is not repeated to
// whoever watches.
func TestSpoken(t *testing.T) {
	r, err := agent.NewRegistry(&tools.ListDocuments{}, &tools.ViewImages{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"view_images": "view_images", "list_documents": "list_documents", "the code is 4711": "a tool", "": "a tool"} {
		if got := r.Spoken(name); got != want {
			t.Errorf("%q is spoken of as %q, want %q", name, got, want)
		}
	}
}
