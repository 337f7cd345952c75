package web

import (
	"strings"
	"testing"
)

func TestAnswersAreInert(t *testing.T) {
	for in, want := range map[string]string{
		"a **b** `c`":                      "<p>a <strong>b</strong> <code>c</code></p>\n",
		"[x](https://e.com/?a=1&b=2)":      `<p><a href="https://e.com/?a=1&amp;b=2" rel="noopener noreferrer nofollow" target="_blank">x</a></p>` + "\n",
		"https://e.com":                    `<p><a href="https://e.com" rel="noopener noreferrer nofollow" target="_blank">https://e.com</a></p>` + "\n",
		"[x](javascript:alert(1))":         "<p>x (javascript:alert(1))</p>\n",
		"[x](data:text/html,<b>)":          "<p>x (data:text/html,&lt;b&gt;)</p>\n",
		"[x](/c/elsewhere)":                "<p>x (/c/elsewhere)</p>\n",
		"[x](//evil.example/y)":            "<p>x (//evil.example/y)</p>\n",
		"![chart](https://e.com/a?secret)": `<p><a href="https://e.com/a?secret" rel="noopener noreferrer nofollow" target="_blank">[image: chart]</a></p>` + "\n",
		"![**b** c](data:image/png,xx)":    "<p>[image: b c]</p>\n",
		"<script>alert(1)</script>":        "<pre>&lt;script&gt;alert(1)&lt;/script&gt;</pre>\n",
		"a <img src=x onerror=alert(1)> b": "<p>a &lt;img src=x onerror=alert(1)&gt; b</p>\n",
		"<me@e.com>":                       `<p><a href="mailto:me@e.com" rel="noopener noreferrer nofollow" target="_blank">me@e.com</a></p>` + "\n",
		"<javascript:alert(1)>":            "<p>javascript:alert(1)</p>\n",
		"```html\n<b>\n```":                "<pre><code class=\"language-html\">&lt;b&gt;\n</code></pre>\n",
	} {
		if got := markdown(in); got != want {
			t.Errorf("%q\n got %q\nwant %q", in, got, want)
		}
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, s := range []string{"![a](b)", "<b>", "[x](javascript:y)", "| a |\n|:-|\n| b |", "<a\nhref=x>", "<!-- -->", "<?php ?>", "<![CDATA[x]]>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		out := strings.ToLower(markdown(in))
		for _, bad := range []string{"<script", "<img", "<iframe", "<style", "<object", "<form", "<svg", "href=\"javascript", "href=\"data", " style=", "<!--"} {
			// Attributes of ours hold escaped text only; a tag is a tag.
			if bad == " style=" && !strings.Contains(out, "<td style=") && !strings.Contains(out, "<th style=") {
				continue
			}
			if strings.Contains(out, bad) {
				t.Fatalf("%q rendered with %s: %q", in, bad, out)
			}
		}
	})
}
