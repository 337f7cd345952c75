package openai

import (
	"encoding/base64"
	"encoding/json"
	"image"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"sightline/agent"
)

var bothAPIs = []string{APIChat, APIResponses}

func TestPicturesFollowTheTranscript(t *testing.T) {
	for _, api := range bothAPIs {
		t.Run(api, func(t *testing.T) {
			f := newFake(t, textIn(api, "I see"))
			m := f.model(t, api, func(c *Config) { c.Detail = DetailHigh })
			p1, img1 := picture(t, 1, 40, 30)
			p2, img2 := picture(t, 2, 333, 111)
			r := agent.ModelRequest{
				Instructions: "be brief",
				Messages: []agent.Message{
					{Role: agent.RoleUser, Text: "look"},
					{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "call_a", Name: "view_images", Arguments: `{"ids":["x"]}`}}},
					{Role: agent.RoleTool, CallID: "call_a", Text: `{"selected":[]}`},
				},
				Pictures: []agent.ShownPicture{p1, p2},
			}
			if _, err := m.Generate(t.Context(), r, nil); err != nil {
				t.Fatal(err)
			}
			sent := f.last(t)
			if sent.length != int64(len(sent.body)) {
				t.Errorf("content length %d for %d bytes", sent.length, len(sent.body))
			}
			role, parts := sentParts(t, api, sent.body)
			if role != "user" || len(parts) != 4 {
				t.Fatalf("last message: role %q, %d parts; want user, 4", role, len(parts))
			}
			for i, want := range []struct {
				label string
				img   image.Image
			}{{p1.Label, img1}, {p2.Label, img2}} {
				if parts[2*i].text != want.label {
					t.Errorf("label %d: %q", i, parts[2*i].text)
				}
				if parts[2*i+1].detail != "high" {
					t.Errorf("detail %d: %q", i, parts[2*i+1].detail)
				}
				if !samePixels(decodeDataURL(t, parts[2*i+1].url), want.img) {
					t.Errorf("picture %d arrived with other pixels", i)
				}
			}
		})
	}
}

func TestNoPicturesNoMessage(t *testing.T) {
	for _, api := range bothAPIs {
		f := newFake(t, textIn(api, "hi"))
		m := f.model(t, api)
		if _, err := m.Generate(t.Context(), agent.ModelRequest{Messages: []agent.Message{{Role: agent.RoleUser, Text: "hello"}}}, nil); err != nil {
			t.Fatal(err)
		}
		if _, parts := sentParts(t, api, f.last(t).body); parts != nil {
			t.Errorf("%s: a message with parts was sent", api)
		}
		if strings.Contains(string(f.last(t).body), "image") {
			t.Errorf("%s: the request speaks of images", api)
		}
	}
}

// TestBodiesAreWhatTheSDKReads holds the requests against the SDK's own types: each item must come back as the variant it
// was meant to be, and marshal to the same JSON.
func TestBodiesAreWhatTheSDKReads(t *testing.T) {
	pic, _ := picture(t, 3, 8, 8)
	r := agent.ModelRequest{
		Instructions: "be brief",
		Messages: []agent.Message{
			{Role: agent.RoleUser, Text: "look \u2028 <b>&\"quoted\"</b>"},
			{Role: agent.RoleAssistant, Text: "looking", Calls: []agent.ToolCall{{ID: "call_a", Name: "view_images", Arguments: `{"ids":["x"]}`}, {ID: "call_b", Name: "list_documents", Arguments: "not json"}}},
			{Role: agent.RoleTool, CallID: "call_a", Text: `{}`},
			{Role: agent.RoleTool, CallID: "call_b", Text: `{"error":"no"}`},
			{Role: agent.RoleAssistant, Text: "done"},
			{Role: agent.RoleUser, Text: "and now?"},
		},
		Tools: []agent.ToolSpec{
			{Name: "view_images", Description: "look", Parameters: json.RawMessage(`{"type":"object","properties":{"ids":{"type":"array","items":{"type":"string"}}}}`)},
			{Name: "bare"},
		},
		Pictures: []agent.ShownPicture{pic},
	}
	sent := func(api string) []byte {
		f := newFake(t, textIn(api, "ok"))
		if _, err := f.model(t, api).Generate(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
		return f.last(t).body
	}
	t.Run(APIChat, func(t *testing.T) {
		b := sent(APIChat)
		var p sdk.ChatCompletionNewParams
		if err := json.Unmarshal(b, &p); err != nil {
			t.Fatal(err)
		}
		kinds := ""
		for _, m := range p.Messages {
			switch {
			case m.OfSystem != nil:
				kinds += "s"
			case m.OfUser != nil:
				kinds += "u"
			case m.OfAssistant != nil:
				kinds += "a"
			case m.OfTool != nil:
				kinds += "t"
			default:
				kinds += "?"
			}
		}
		if kinds != "suattauu" {
			t.Errorf("messages %q", kinds)
		}
		if got := p.Messages[2].OfAssistant.ToolCalls[1].OfFunction.Function.Arguments; got != `{"not_json":"not json"}` {
			t.Errorf("arguments that are no JSON were sent as %q", got)
		}
		if len(p.Tools) != 2 || !p.StreamOptions.IncludeUsage.Value {
			t.Errorf("tools %d, usage %v", len(p.Tools), p.StreamOptions.IncludeUsage)
		}
		sameJSON(t, b, p)
	})
	t.Run(APIResponses, func(t *testing.T) {
		b := sent(APIResponses)
		var p responses.ResponseNewParams
		if err := json.Unmarshal(b, &p); err != nil {
			t.Fatal(err)
		}
		kinds := ""
		for _, m := range p.Input.OfInputItemList {
			switch {
			case m.OfMessage != nil:
				kinds += "m"
			case m.OfFunctionCall != nil:
				kinds += "c"
			case m.OfFunctionCallOutput != nil:
				kinds += "o"
			default:
				kinds += "?"
			}
		}
		if kinds != "mmccoommm" {
			t.Errorf("items %q", kinds)
		}
		if !p.Store.Valid() || p.Store.Value {
			t.Errorf("store is %v, want false", p.Store)
		}
		if p.PreviousResponseID.Valid() {
			t.Error("previous_response_id is set")
		}
		if len(p.Include) != 1 || p.Include[0] != "reasoning.encrypted_content" {
			t.Errorf("include %v", p.Include)
		}
		if len(p.Tools) != 2 || p.Tools[0].OfFunction.Strict.Value || !p.Tools[0].OfFunction.Strict.Valid() {
			t.Error("tools must be there, and not strict")
		}
		sameJSON(t, b, p)
	})
}

// sameJSON compares the body with what the SDK's type makes of it; "stream" is the one field it keeps elsewhere.
func sameJSON(t *testing.T, body []byte, params any) {
	t.Helper()
	again, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	var a, b map[string]any
	if json.Unmarshal(body, &a) != nil || json.Unmarshal(again, &b) != nil {
		t.Fatal("no JSON")
	}
	if a["stream"] != true {
		t.Error("stream is not on")
	}
	delete(a, "stream")
	delete(b, "stream")
	if !reflect.DeepEqual(a, b) {
		t.Errorf("the SDK reads another request:\n%v\n%v", a, b)
	}
}

func TestReasoningComesBack(t *testing.T) {
	reasoning := `{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"c2VhbGVk"}`
	first := `{"id":"msg_1","type":"message","status":"completed","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"Looking.","annotations":[]}]}`
	second := `{"id":"msg_2","type":"message","status":"completed","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"Well.","annotations":[]}]}`
	call := `{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_9","name":"view_images","arguments":"{}"}`
	done := func(i, item string) string {
		return `{"type":"response.output_item.done","sequence_number":1,"output_index":` + i + `,"item":` + item + `}`
	}
	f := newFake(t, sse(done("0", reasoning), done("1", first), done("2", second), done("3", call),
		`{"type":"response.completed","sequence_number":9,"response":{"id":"r","object":"response","status":"completed","model":"m","output":[]}}`))
	m := f.model(t, APIResponses)
	res, err := m.Generate(t.Context(), agent.ModelRequest{Messages: []agent.Message{{Role: agent.RoleUser, Text: "q"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.Message.Text != "Looking.\n\nWell." || len(res.Message.Calls) != 1 || res.Finish != "tool_calls" {
		t.Fatalf("answer: %+v", res)
	}
	ask := func(m *Model, msg agent.Message) string {
		t.Helper()
		f.answer = responseText("fine")
		if _, err := m.Generate(t.Context(), agent.ModelRequest{Messages: []agent.Message{
			{Role: agent.RoleUser, Text: "q"}, msg, {Role: agent.RoleTool, CallID: "call_9", Text: "{}"},
		}}, nil); err != nil {
			t.Fatal(err)
		}
		var body struct {
			Input []struct {
				Type, Role, ID, Phase string
				Sealed                string          `json:"encrypted_content"`
				Content               json.RawMessage `json:"content"`
			}
		}
		if err := json.Unmarshal(f.last(t).body, &body); err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for _, it := range body.Input {
			kinds = append(kinds, it.Type+it.Role+it.Phase+it.Sealed)
		}
		return strings.Join(kinds, " ")
	}
	if got, want := ask(m, res.Message), "messageuser reasoningc2VhbGVk messageassistantcommentary messageassistantfinal_answer function_call function_call_output"; got != want {
		t.Errorf("sent back:\n%s\nwant\n%s", got, want)
	}
	const plain = "messageuser messageassistant function_call function_call_output"
	other := f.model(t, APIResponses, func(c *Config) { c.Model = "another" })
	if got := ask(other, res.Message); got != plain {
		t.Errorf("another model was sent: %s", got)
	}
	edited := res.Message
	edited.Text = "Looking. And edited."
	if got := ask(m, edited); got != plain {
		t.Errorf("an edited message was sent as: %s", got)
	}
}

func TestBase64Reader(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 100, base64Piece - 1, base64Piece, base64Piece + 1, 5*base64Piece + 2} {
		src := make([]byte, n)
		for i := range src {
			src[i] = byte(rand.Uint32())
		}
		got, err := io.ReadAll(&base64Reader{src: src})
		if err != nil || string(got) != base64.StdEncoding.EncodeToString(src) {
			t.Errorf("%d bytes: wrong base64 (%v)", n, err)
		}
	}
}

// TestPicturesAreNotCopied bounds what a request with 16 MiB of pictures allocates on top of them.
func TestPicturesAreNotCopied(t *testing.T) {
	for _, api := range bothAPIs {
		f := newFake(t, textIn(api, "ok"))
		m := f.model(t, api)
		p := agent.ShownPicture{Label: "big"}
		p.Picture.MIME = "image/png"
		p.Picture.Bytes = make([]byte, 8<<20)
		r := agent.ModelRequest{Pictures: []agent.ShownPicture{p, p}}
		d := m.dialect()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		holders := newPlaceholders(r.Pictures)
		marshalled, _, err := d.request(m, r, holders)
		if err != nil {
			t.Fatal(err)
		}
		b, err := holders.fill(marshalled)
		if err != nil {
			t.Fatal(err)
		}
		n, _ := io.Copy(io.Discard, b.reader())
		runtime.ReadMemStats(&after)
		if n != b.size() || n < 2*(8<<20)*4/3 {
			t.Errorf("%s: %d bytes read, %d announced", api, n, b.size())
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
			t.Errorf("%s: %d bytes allocated to send the pictures", api, grown)
		}
	}
}
