package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"path"
	"strings"

	"sightline/attachments/visual"
)

// Hint is what a file says of itself. It chooses between kinds of plain text and decides nothing else.
type Hint struct{ Name, Type string }

// Sniff finds out what b is. Its errors are *Refusal: pictures are to be looked at, and what is no document is not read.
func Sniff(b []byte, h Hint) (Kind, error) {
	switch {
	case len(b) == 0:
		return Text, nil
	case bytes.HasPrefix(b, []byte(`{\rtf`)):
		return RTF, nil
	case bytes.HasPrefix(b, []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")):
		return "", refuseCompound(b)
	}
	switch f := visual.Sniff(b); {
	case f.Native():
		return "", refuse(IsPicture, fmt.Sprintf("This is a %s picture, not a document. Look at it with view_images.", strings.ToUpper(string(f))), "%s is a picture", f)
	case f == visual.PDF:
		return PDF, nil
	case f == visual.HTML:
		return HTML, nil
	case f == visual.ZIP:
		return sniffZIP(b)
	case f == visual.MP4:
		return "", refuse(UnsupportedFormat, "This is a video or a sound, which can't be read. Import it into a workspace (where one is enabled).", "%s", f)
	case f != visual.Text && f != visual.Unknown:
		return "", refuse(IsPicture, fmt.Sprintf("This is a picture (%s) of a kind that can't be shown directly. Import it into a workspace (where one is enabled) and convert it to PNG there.", strings.ToUpper(string(f))),
			"%s is a picture that is not shown", f)
	}
	d, ok := decode(b, false)
	if !ok {
		return "", refuse(UnsupportedFormat, "This is not a document of a known kind. Import it into a workspace (where one is enabled) to examine it.", "unknown bytes")
	}
	switch visual.Sniff([]byte(d.text[:min(len(d.text), 4096)])) { // markup in UTF-16 is told apart once it is decoded
	case visual.HTML:
		return HTML, nil
	case visual.SVG:
		return "", refuse(IsPicture, "This is a picture (SVG) of a kind that can't be shown directly. Import it into a workspace (where one is enabled) and convert it to PNG there.", "svg is a picture that is not shown")
	}
	return plainKind(d.text, h), nil
}

// plainKind chooses between kinds of plain text.
func plainKind(text string, h Hint) Kind {
	if t := strings.TrimSpace(text); t != "" && (t[0] == '{' || t[0] == '[') && json.Valid([]byte(t)) {
		return JSON
	}
	if k, ok := extensions[strings.ToLower(strings.TrimPrefix(path.Ext(h.Name), "."))]; ok {
		return k
	}
	switch t, _, _ := mime.ParseMediaType(h.Type); t {
	case "text/markdown", "text/x-markdown":
		return Markdown
	case "text/csv", "text/tab-separated-values":
		return CSV
	case "application/json", "application/x-ndjson", "application/jsonl":
		return JSON
	case "text/javascript", "application/javascript", "application/xml", "text/xml", "text/css", "application/yaml", "application/toml", "application/x-sh", "application/sql":
		return Code
	default:
		if strings.HasPrefix(t, "text/x-") {
			return Code
		}
	}
	if strings.HasPrefix(text, "#!") {
		return Code
	}
	return Text
}

// extensions of names that say which kind of plain text a file is.
var extensions = func() map[string]Kind {
	m := map[string]Kind{}
	for k, names := range map[Kind]string{
		Markdown: "md markdown mdown mdx",
		CSV:      "csv tsv tab",
		JSON:     "json jsonl ndjson geojson ipynb",
		Log:      "log out err trace",
		Code: "go py js mjs cjs ts tsx jsx java kt kts c h cc cpp cxx hpp cs rs rb php pl pm lua r jl swift scala clj hs ml ex exs erl sh bash zsh fish ps1 " +
			"bat cmd sql html css scss less xml xsl xsd yaml yml toml ini cfg conf properties env dockerfile makefile cmake gradle tf proto graphql vue svelte diff patch tex asm s v vhd",
	} {
		for _, n := range strings.Fields(names) {
			m[n] = k
		}
	}
	return m
}()

// refuseCompound tells apart what the compound files of old office programs hold, by the names in their directory.
func refuseCompound(b []byte) *Refusal {
	has := func(name string) bool {
		wide := make([]byte, 0, 2*len(name))
		for i := range len(name) {
			wide = append(wide, name[i], 0)
		}
		return bytes.Contains(b, wide)
	}
	old := func(what string) *Refusal {
		return refuse(UnsupportedFormat, fmt.Sprintf("This is %s of the format before 2007, which can't be read. Save it in the present format, or import it into a workspace (where one is enabled).", what), "compound file: %s", what)
	}
	switch {
	case has("EncryptedPackage"):
		return refuse(Encrypted, "This office document is protected by a password, so it cannot be read. Post a copy without the password.", "compound file with EncryptedPackage")
	case has("WordDocument"):
		return old("a Word document")
	case has("Workbook"), has("Book"):
		return old("a spreadsheet")
	case has("PowerPoint Document"):
		return old("a presentation")
	}
	return refuse(UnsupportedFormat, "This is not a document of a known kind. Import it into a workspace (where one is enabled) to examine it.", "compound file of unknown content")
}
