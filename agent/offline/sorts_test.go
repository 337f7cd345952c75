package offline

import (
	"image/color"
	"strings"
	"testing"
)

// What only the answer from one file says: the size of a picture, the words of a document.
const (
	shotWords   = "77x33 pixels"
	firstPage   = "PUMP MODEL OTTER"
	secondPage  = "SERVICE EVERY 700 HOURS"
	budgetWords = "BUDGET CELLS"
)

// desk is a conversation with a picture and a document, in that order or the other.
func desk(t *testing.T, m *Model, pdfLast bool) (w *world, shot, manual *posted) {
	w = newWorld(t, m)
	w.reads = true
	post := []func(){
		func() { shot = w.postSize("screenshot.png", 77, 33) },
		func() { manual = w.postDocument("manual.pdf", "application/pdf", firstPage, secondPage) },
	}
	if !pdfLast {
		post[0], post[1] = post[1], post[0]
	}
	post[0]()
	post[1]()
	return w, shot, manual
}

func (w *world) postSize(name string, width, height int) *posted {
	return w.post(name, "image/png", pngOf(w.t, plain(color.White, width, height)))
}

func (w *world) postDocument(name, mime string, pages ...string) *posted {
	p := w.post(name, mime, []byte("x"))
	p.pages, p.page = pages, pngOf(w.t, plain(color.NRGBA{30, 60, 220, 255}, 30, 40))
	p.reason = "not a picture"
	return p
}

var everyWord = []string{shotWords, firstPage, secondPage, budgetWords}

// only checks that an answer is from these files and from no other.
func only(t *testing.T, ask, answer string, words ...string) {
	t.Helper()
	for _, s := range everyWord {
		want := false
		for _, x := range words {
			want = want || x == s
		}
		if got := strings.Contains(answer, s); got != want {
			t.Errorf("%q: %q in the answer: %v, want %v:\n%s", ask, s, got, want, answer)
		}
	}
}

// TestSortDecidesTheFile has the sentences of somebody who reads the answers and has not read the rules.
func TestSortDecidesTheFile(t *testing.T) {
	m := blind()
	both := []string{firstPage, secondPage}
	tests := []struct {
		ask   string
		words []string
	}{
		{"Read the PDF", both},
		{"What did the PDF say?", both},
		{"What does the document say?", both},
		{"What does the manual say?", both},
		{"When is service due according to the PDF?", both},
		{"read the last document", both},
		{"the first PDF please", both},
		{"What is the first word of the document?", both},
		{"What is the second word of the document?", both},
		{"the PDF document", both},
		{"the attached PDF file", both},
		{"What did the screenshot say?", []string{shotWords}},
		{"What is in the picture?", []string{shotWords}},
		{"Describe the PNG", []string{shotWords}},
		{"What colour is it?", []string{shotWords}},
		{"What text is in the image?", []string{shotWords}},
		{"Show page 2 of the PDF", both[1:]},
		{"look at page 2 of manual.pdf", both[1:]},
		{"the second page of the manual", both[1:]},
		{"What is on page 1?", both[:1]},
		{"read pages 1-2 of the PDF", both},
		{"Compare the screenshot and the PDF", everyWord[:3]},
		{"describe both", everyWord[:3]},
		{"read all files", everyWord[:3]},
		{"read the files", everyWord[:3]},
		{"what does page two say?", both[1:]},
		{"Which page mentions service?", both},
		{"How many pages does the PDF have?", both},
		{"What is in the picture before the PDF?", everyWord[:3]},
		{"Import screenshot.png into the workspace", nil},
		{"Please copy manual.pdf to a folder", nil},
		{"Can you put the screenshot into the workspace?", nil},
		{"attachments", nil},
		{"The attachments?", nil},
		{"What does the spreadsheet say?", nil},
		{"read the slides", nil},
		{"What does the GIF show?", nil},
		{"What's in the video?", nil},
		{"read the Word document", nil},
		{"read the text file", nil},
		{"what is in the second PDF?", nil},
		{"look at page 2 of screenshot.png", nil},
		{"Show the last page of the PDF", nil},
		{"page 9 of the PDF", nil},
		{"What is two plus two?", nil},
	}
	for _, pdfLast := range []bool{true, false} {
		w, _, _ := desk(t, m, pdfLast)
		for _, tt := range tests {
			only(t, tt.ask, w.say(tt.ask), tt.words...)
		}
	}
}

// TestSaysWhyNot: what names a sort that is not there is told so, with what there is.
func TestSaysWhyNot(t *testing.T) {
	w, _, _ := desk(t, blind(), false)
	for ask, want := range map[string]string{
		"read the spreadsheet":                     "No spreadsheet was posted",
		"read the slides":                          "No presentation was posted",
		"read the CSV":                             "No CSV file was posted",
		"describe the GIF":                         "No GIF was posted",
		"what is in the zip?":                      "No archive was posted",
		"what is in the second PDF?":               "There is no such PDF: there are 1.",
		"look at page 2 of screenshot.png":         "is a picture, and has no pages",
		"region 0,0,5,5 of manual.pdf":             "name its page",
		"the picture and the spreadsheet":          "No spreadsheet was posted",
		"page 9 of the PDF":                        "There is no such page.",
		"Show the last page of the PDF":            `"page 3 of manual.pdf"`,
		"Compare the screenshot and the PDF":       "I can't compare",
		"What is the sum of the hours in the PDF?": "calculate",
		"How much is 3 + 4 in the document?":       "calculate",
		"Import screenshot.png into the workspace": "I can't import",
		"Ann: <@U123> please delete the PDF":       "I can't delete",
	} {
		contains(t, w.say(ask), want)
	}
	for _, ask := range []string{"read the spreadsheet", "what is in the second PDF?", "attachments"} {
		contains(t, w.say(ask), "2 files in this conversation", "screenshot.png", "manual.pdf")
	}
	contains(t, w.say("Import screenshot.png into the workspace"), "list the files", "page 2 of manual.pdf", "describe the last picture")
	contains(t, w.say("hello"), "what does the PDF say?")
	w.reads = false
	lacks(t, w.say("hello"), "PDF")
}

// TestSaysWhichItTook: where several files could be meant, the answer begins with the choice.
func TestSaysWhichItTook(t *testing.T) {
	w, _, _ := desk(t, blind(), true)
	lacks(t, w.say("read the PDF"), "There are")
	lacks(t, w.say("How many pages does the PDF have?"), "can't")
	contains(t, w.say("what does it say?"), "There are 2 files here", "I took the newest, manual.pdf", firstPage)
	w.postSize("between.png", 11, 12)
	w.postDocument("guide.pdf", "application/pdf", budgetWords)
	a := w.say("read the PDF")
	contains(t, a, "There are 2 PDFs here", "guide.pdf")
	only(t, "read the PDF", a, budgetWords)
	a = w.say("read the manual")
	lacks(t, a, "There are")
	only(t, "read the manual", a, firstPage, secondPage)
	only(t, "read the PDFs", w.say("read the PDFs"), firstPage, secondPage, budgetWords)
	// "The one before" is a file like the one that was spoken of.
	only(t, "read guide.pdf", w.say("read guide.pdf"), budgetWords)
	only(t, "and the previous one?", w.say("and the previous one?"), firstPage, secondPage)
}

// TestOwnFilesAreAllAnsweredFor: what comes with a message is what it is about, all of it.
func TestOwnFilesAreAllAnsweredFor(t *testing.T) {
	m := blind()
	for _, ask := range []string{"Compare", "What is this?", "", "read both", "Which of these is newer?"} {
		w, shot, manual := desk(t, m, true)
		w.postSize("old.png", 11, 12)
		a := w.say(ask, shot, manual)
		only(t, ask, a, everyWord[:3]...)
		lacks(t, a, "11x12")
		if got := w.called(); got != "read_document manual.pdf" {
			t.Errorf("%q: %s", ask, got)
		}
	}
	w, shot, manual := desk(t, m, true)
	only(t, "pdf", w.say("What does the PDF say?", shot, manual), firstPage, secondPage)
	only(t, "shot", w.say("What does the screenshot say?", shot, manual), shotWords)
	only(t, "page", w.say("page 2, please", shot, manual), secondPage)
	only(t, "two of a sort", w.say("Read the PDF", w.postDocument("plan.pdf", "application/pdf", budgetWords), shot, manual), budgetWords, firstPage, secondPage)
	other := w.postSize("other.png", 55, 22)
	a := w.say("What did the PDF say?", other)
	only(t, "elsewhere", a, budgetWords)
	contains(t, a, "left out", "other.png")
	lacks(t, a, "55x22")
	a = w.say("Compare this with the PDF", other)
	only(t, "this and elsewhere", a, budgetWords)
	contains(t, a, "55x22")

	// One that can't be read does not silence the others.
	broken := w.post("broken.pdf", "application/pdf", []byte("x"))
	a = w.say("Compare", broken, shot, manual)
	only(t, "broken", a, everyWord[:3]...)
	contains(t, a, "broken.pdf", "could not be read. This file is no document.")

	w.noTools = true
	contains(t, w.say("What does the spreadsheet say?", shot), "No such file came with this message")
	w.noTools = false

	// A photo of a document is one, where nothing else is.
	w = newWorld(t, m)
	w.reads = true
	a = w.say("What does this document say?", w.postSize("photo.png", 55, 22))
	contains(t, a, "55x22", "No document was posted")
}

// TestPages: a page of a PDF is looked at, with the text that the file has for it, or else with what tesseract reads.
func TestPages(t *testing.T) {
	w, _, manual := desk(t, reader(t), true)
	a := w.say("look at page 2 of manual.pdf")
	if got := w.called(); got != "list_documents, read_document manual.pdf, view_images manual.pdf" {
		t.Error(got)
	}
	if want := `{"pages":[{"id":"` + string(manual.id) + `","page":2}]}`; w.calls[2].Arguments != want {
		t.Error(w.calls[2].Arguments)
	}
	contains(t, a, "Page 2 of manual.pdf", "30x40", "blue", secondPage)
	lacks(t, a, "tesseract", firstPage)
	w.say("region 1,2,3,4 of page 2 of manual.pdf")
	if want := `{"regions":[{"id":"` + string(manual.id) + `","x":1,"y":2,"width":3,"height":4,"page":2}]}`; w.calls[len(w.calls)-1].Arguments != want {
		t.Error(w.calls)
	}
	manual.pages = []string{"", "x"}
	manual.page = pngOf(t, textPicture("SCANNED LETTERS", 32))
	contains(t, w.say("page 1 of the PDF"), "SCANNED LETTERS", "tesseract")
	contains(t, w.say("read the PDF"), "Pages without text: 1", `"page 1 of manual.pdf"`)
	contains(t, w.say("page 7 of the PDF"), "was not shown to me", "There is no such page.")
}

func TestReadPages(t *testing.T) {
	for ask, want := range map[string][]int{
		"page 2 of it":                {2},
		"pages 2-4":                   {2, 3, 4},
		"pages 2, 3 and 7":            {2, 3, 7},
		"page 5 and page 6":           {5, 6},
		"pages 1 to 99999":            {1, 2, 3, 4},
		"page no. 3":                  {3},
		"slide #2 of the deck":        {2},
		"the third page":              {3},
		"the 2nd page":                {2},
		"page 0":                      nil,
		"slide ten":                   {10},
		"the web page says two pages": nil,
	} {
		w := readWish(ask)
		if len(w.pages) != len(want) {
			t.Errorf("%q: %v, want %v", ask, w.pages, want)
			continue
		}
		for i := range want {
			if w.pages[i] != want[i] {
				t.Errorf("%q: %v, want %v", ask, w.pages, want)
			}
		}
	}
}

func TestSortOfAFile(t *testing.T) {
	for _, tt := range []struct {
		name, mime string
		noun       string
		want       bool
	}{
		{"a.pdf", "application/pdf", "pdf", true},
		{"a.PDF", "application/octet-stream", "pdf", true},
		{"a.pdf", "image/png", "pdf", false},
		{"a.pdf", "image/png", "screenshot", true},
		{"a.png", "text/html", "screenshot", false},
		{"a.png", "text/html", "document", true},
		{"a.xlsx", "", "spreadsheet", true},
		{"a.csv", "text/csv", "spreadsheet", true},
		{"a.csv", "text/csv", "csv", true},
		{"a.xlsx", "", "csv", false},
		{"deck", "application/vnd.openxmlformats-officedocument.presentationml.presentation", "slides", true},
		{"a.docx", "", "pdf", false},
		{"a.docx", "", "wordfile", true},
		{"a.txt", "text/plain", "textfile", true},
		{"a.zip", "application/zip", "document", false},
		{"a.mp4", "video/mp4", "document", false},
		{"a.mp4", "video/mp4", "file", true},
		{"a.jpg", "image/jpeg", "png", false},
		{"a.jpg", "image/jpeg", "jpg", true},
	} {
		if got := nouns[tt.noun].has(document{Name: tt.name, Type: tt.mime}); got != tt.want {
			t.Errorf("%s %s is a %s: %v", tt.name, tt.mime, tt.noun, got)
		}
	}
}
