package offline

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"sightline/agent"
	"sightline/attachments/visual"
	"sightline/connectors/chat"
)

// webpOf is a lossless WebP of one colour: each channel's code has one symbol, so its pixels take no bits at all.
func webpOf(w, h int, c color.NRGBA) []byte {
	var bits uint64
	var n uint
	out := []byte{0x2f}
	put := func(v uint64, width uint) {
		bits |= v << n
		for n += width; n >= 8; n -= 8 {
			out = append(out, byte(bits))
			bits >>= 8
		}
	}
	put(uint64(w-1), 14)
	put(uint64(h-1), 14)
	put(0, 1+3)   // no alpha hint, version 0
	put(0, 1+1+1) // no transform, no colour cache, one group of codes
	for _, v := range []uint8{c.G, c.R, c.B, c.A} {
		put(1|0<<1|1<<2|uint64(v)<<3, 11) // simple, one symbol, of eight bits
	}
	put(1, 4) // distances: simple, one symbol, of one bit
	put(0, 16)
	if len(out)%2 == 1 {
		out = append(out, 0)
	}
	file := binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(12+len(out)))
	file = append(file, "WEBPVP8L"...)
	file = binary.LittleEndian.AppendUint32(file, uint32(len(out)))
	return append(file, out...)
}

func show(m *Model, b []byte, notes ...string) (string, error) {
	id := chat.NewAttachmentID()
	res, err := m.Generate(context.Background(), agent.ModelRequest{
		Messages: []agent.Message{
			{Role: agent.RoleUser, Text: "hi"}, {Role: agent.RoleAssistant, Text: "hello"},
			{Role: agent.RoleUser, Text: "[Image #1: a (b).png (" + string(id) + ")]"},
		},
		Pictures: []agent.ShownPicture{{ID: id, Label: "whatever", Picture: visual.Picture{Bytes: b, Notes: notes}}},
	}, nil)
	return res.Message.Text, err
}

func TestStatesTypeSizeAndColours(t *testing.T) {
	half := plain(color.NRGBA{30, 60, 220, 255}, 60, 40).(*image.NRGBA)
	draw.Draw(half, image.Rect(0, 0, 15, 40), image.NewUniform(color.NRGBA{250, 250, 250, 255}), image.Point{}, draw.Src)
	for name, c := range map[string]struct {
		b    []byte
		want []string
	}{
		"png":         {pngOf(t, half), []string{"a (b).png (att_", "PNG, 60x40 pixels", "Main colours: blue 75%, white 25%."}},
		"jpeg":        {jpegOf(t, half), []string{"JPEG, 60x40 pixels", "blue 7", "white 2"}},
		"gif":         {gifOf(t, half), []string{"GIF, 60x40 pixels", "blue 75%, white 25%."}},
		"transparent": {pngOf(t, plain(color.Transparent, 5, 5)), []string{"transparent 100%"}},
		"orange":      {pngOf(t, plain(color.NRGBA{250, 150, 20, 255}, 5, 5)), []string{"orange 100%"}},
		"webp":        {webpOf(16, 16, color.NRGBA{200, 30, 30, 255}), []string{"WebP, 16x16 pixels", "red 100%"}},
	} {
		a, err := show(blind(), c.b, "first frame")
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { contains(t, a, append(c.want, "(first frame)", "tesseract is not installed")...) })
	}
}

func TestUndecodableIsSaid(t *testing.T) {
	good := pngOf(t, textPicture("SECRET", 32))
	for name, b := range map[string][]byte{"cut": good[:len(good)/2], "junk": []byte("junk"), "nothing": nil, "html": []byte("<!doctype html>")} {
		a, err := show(blind(), b)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(a, "can't be decoded, so I can say nothing") || strings.Contains(a, "Main colours") {
			t.Errorf("%s: %s", name, a)
		}
	}
}

// TestReadsTextOfAllSizes: what counts is the letters, however large they came.
func TestReadsTextOfAllSizes(t *testing.T) {
	m := reader(t)
	for _, size := range []float64{11, 16, 32, 90} {
		a, err := show(m, pngOf(t, textPicture("Meeting moved to Tuesday\nRoom 4711", size)))
		if err != nil {
			t.Fatal(err)
		}
		contains(t, a, "Meeting moved to Tuesday\n> Room 4711", "% sure")
	}
	a, err := show(m, jpegOf(t, textPicture("Meeting moved", 40)))
	if err != nil {
		t.Fatal(err)
	}
	contains(t, a, "JPEG", "Meeting moved")
	// White on black, and coarse pixels.
	dark := image.NewNRGBA(image.Rect(0, 0, 500, 100))
	light := textPicture("Dark mode", 40)
	for y := range 100 {
		for x := range 500 {
			v := uint8(0)
			if (image.Point{X: x, Y: y}).In(light.Bounds()) {
				v = 255 - light.(*image.Gray).GrayAt(x, y).Y
			}
			dark.SetNRGBA(x, y, color.NRGBA{v, v, v, 255})
		}
	}
	if a, err = show(m, pngOf(t, dark)); err != nil {
		t.Fatal(err)
	}
	contains(t, a, "Dark mode", "black 9")
	for _, scale := range []int{2, 3, 4, 6} {
		if a, err = show(m, pngOf(t, pixelPicture("UPPER LINE", scale))); err != nil {
			t.Fatal(err)
		}
		contains(t, a, "LINE")
	}
	if a, err = show(m, pngOf(t, plain(color.NRGBA{90, 200, 90, 255}, 300, 200))); err != nil {
		t.Fatal(err)
	}
	contains(t, a, "No text was found", "green 100%")
}

// script is a tesseract that does what the test says.
func script(t *testing.T, body string) *Model {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	path := filepath.Join(t.TempDir(), "tesseract")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o755); err != nil {
		t.Fatal(err)
	}
	m := New(Config{Tesseract: path})
	if m.tesseract == "" {
		t.Fatal("the script was not taken")
	}
	return m
}

func TestTesseractFails(t *testing.T) {
	pic := pngOf(t, plain(color.White, 40, 40))
	a, err := show(script(t, "cat >/dev/null; echo 'no such language' >&2; exit 1"), pic)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, a, "could not read text in it: tesseract failed", "white 100%")
	lacks(t, a, "language")

	a, err = show(script(t, "cat >/dev/null; head -c 5000000 /dev/zero | tr '\\0' 'x'"), pic) // floods
	if err != nil {
		t.Fatal(err)
	}
	contains(t, a, "No text was found")
}

func TestTesseractSeesNoneOfOurEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "hunter2")
	m := script(t, `cat >/dev/null; printf '5\t1\t1\t1\t1\t1\t0\t0\t9\t20\t90\t%s\n' "$(env | tr '\n\t' '  ')"`)
	a, err := show(m, pngOf(t, plain(color.White, 40, 40)))
	if err != nil {
		t.Fatal(err)
	}
	contains(t, a, "OMP_THREAD_LIMIT=1")
	lacks(t, a, "hunter2")
}

func TestCancelStopsTesseract(t *testing.T) {
	m := script(t, "exec sleep 60")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	start := time.Now()
	_, err := m.read(ctx, plain(color.White, 40, 40))
	if !errors.Is(err, context.Canceled) || time.Since(start) > 10*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
	// Waiting for one's turn ends too.
	m.busy <- struct{}{}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := m.read(ctx, plain(color.White, 40, 40)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting: %v", err)
	}
}

func TestCancelled(t *testing.T) {
	if _, err := blind().Generate(ctxDone(), agent.ModelRequest{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := decode(ctxDone(), visual.PNG, pngOf(t, plain(color.White, 400, 400))); !errors.Is(err, context.Canceled) {
		t.Errorf("decode: %v", err)
	}
}

func TestInfo(t *testing.T) {
	i := blind().Info(t.Context())
	if !i.Offline || i.Capability.Vision != agent.VisionYes || i.Capability.Source != "built in" || i.Capability.At.IsZero() || i.Key == "" || len(i.Limits.Formats) != 4 {
		t.Errorf("%+v", i)
	}
}

func TestParseTable(t *testing.T) {
	row := func(line int, height int, conf, word string) string {
		return fmt.Sprintf("5\t1\t1\t1\t%d\t1\t0\t0\t50\t%d\t%s\t%s", line, height, conf, word)
	}
	r := parseTable(strings.Join([]string{
		"level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext",
		"4\t1\t1\t1\t1\t0\t0\t0\t9\t9\t-1\t",
		row(1, 20, "90.5", "hello"), row(1, 22, "80", "wor\u202eld"), row(2, 30, "95", "again"), row(2, 9, "3", "noise"), row(3, 9, "NaN", "nan"), "5\tshort", "",
	}, "\n"))
	if r.text != "hello world\nagain" || r.letters != 22 || r.confidence < 85 || r.confidence > 92 {
		t.Errorf("%+v", r)
	}
	long := parseTable(strings.Repeat(row(1, 10, "90", strings.Repeat("é", 50))+"\n", 100))
	if len(long.text) > maxText+60 || !strings.HasSuffix(long.text, "ask for a region)") {
		t.Errorf("%d bytes", len(long.text))
	}
}

func FuzzParseTable(f *testing.F) {
	f.Add("5\t1\t1\t1\t1\t1\t0\t0\t50\t20\t90\thello\n")
	f.Add("5\t1\t1\t1\t1\t1\t0\t0\t50\t-20\t1e999\t\x00\n5\t")
	f.Fuzz(func(t *testing.T, table string) {
		r := parseTable(table)
		if (r.text == "") != (r.confidence == 0) || r.confidence < 0 || r.confidence > 100 || len(r.text) > maxText+60 {
			t.Errorf("%+v", r)
		}
		if r.text != "" && r.letters <= 0 {
			t.Errorf("letters %d", r.letters)
		}
	})
}

// FuzzStep: whatever stands in a transcript, a step is one answer or one call with valid arguments, and never a picture
// that did not arrive.
func FuzzStep(f *testing.F) {
	id := "att_" + strings.Repeat("0", 26)
	f.Add("what does the first picture say?", "list_documents", `{"documents":[{"id":"`+id+`","ordinal":1,"name":"a.png","type":"image/png","viewable":true}],"total":1,"next":0}`)
	f.Add("region 1,2,3,4 of "+id, "view_images", `{"selected":[],"refused":[{"id":"`+id+`","reason":"no"}]}`)
	f.Add("second to last two pictures and 99999th file.png [Image #1: x ("+id+")]", "x", `{"error":"no"}`)
	f.Add("both previous ones before all pictures 1 and 3\n[Image #1: a ("+id+")]\n[Image #2: b ("+id+")]", "list_documents", `[]`)
	f.Add("pages 2-4 and slide ten of the second PDF", "list_documents", `{"documents":[{"id":"`+id+`","ordinal":1,"name":"a.pdf","type":"application/pdf","state":"available"}],"total":1,"next":0}`)
	f.Add("Compare the text file and the pdfs\n[PDF #1: a.pdf ("+id+")]\n[Image #1: b ("+id+")]", "read_document", `{"id":"`+id+`","total":-1,"text":"x","pages_without_text":[0]}`)
	m := blind()
	f.Fuzz(func(t *testing.T, request, tool, result string) {
		r := agent.ModelRequest{
			Tools: []agent.ToolSpec{{Name: listDocuments}, {Name: viewImages}, {Name: readDocument}},
			Messages: []agent.Message{
				{Role: agent.RoleUser, Text: request},
				{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "c", Name: tool, Arguments: `{"attachment_id":"` + id + `","ids":["` + id + `"]}`}}},
				{Role: agent.RoleTool, CallID: "c", Text: result},
			},
		}
		res, err := m.Generate(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if (res.Message.Text == "") == (len(res.Message.Calls) == 0) {
			t.Errorf("%+v", res.Message)
		}
		if strings.Contains(res.Message.Text, "Main colours") {
			t.Errorf("speaks of pixels that never came: %s", res.Message.Text)
		}
		for _, c := range res.Message.Calls {
			if c.Name != listDocuments && !bytes.Contains([]byte(c.Arguments), []byte("att_")) {
				t.Errorf("views %s", c.Arguments)
			}
		}
	})
}
