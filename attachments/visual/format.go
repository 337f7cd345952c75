package visual

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// Format names what a file is by its own bytes, never by its name or its declared type.
type Format string

// The formats that Sniff tells apart. Only the first four are shown; the others are recognised so that a refusal can
// name what was posted.
const (
	PNG  Format = "png"
	JPEG Format = "jpeg"
	GIF  Format = "gif"
	WebP Format = "webp"

	SVG     Format = "svg"
	TIFF    Format = "tiff"
	HEIC    Format = "heic"
	AVIF    Format = "avif"
	BMP     Format = "bmp"
	ICO     Format = "ico"
	PSD     Format = "psd"
	JPEGXL  Format = "jxl"
	JPEG2K  Format = "jp2"
	MP4     Format = "mp4"
	PDF     Format = "pdf"
	HTML    Format = "html"
	Text    Format = "text"
	ZIP     Format = "zip"
	Unknown Format = "unknown"
)

var mimeTypes = map[Format]string{
	PNG: "image/png", JPEG: "image/jpeg", GIF: "image/gif", WebP: "image/webp",
	SVG: "image/svg+xml", TIFF: "image/tiff", HEIC: "image/heic", AVIF: "image/avif", BMP: "image/bmp",
	ICO: "image/vnd.microsoft.icon", PSD: "image/vnd.adobe.photoshop", JPEGXL: "image/jxl", JPEG2K: "image/jp2",
	MP4: "video/mp4", PDF: "application/pdf", HTML: "text/html", Text: "text/plain", ZIP: "application/zip",
}

// MIME returns the media type of the format; what is not recognised is application/octet-stream.
func (f Format) MIME() string {
	if m, ok := mimeTypes[f]; ok {
		return m
	}
	return "application/octet-stream"
}

// Native reports whether pictures of this format are decoded and shown.
func (f Format) Native() bool {
	return f == PNG || f == JPEG || f == GIF || f == WebP
}

// sniffWindow bounds how far Sniff looks for the textual signatures (SVG, HTML, PDF), which may follow comments.
const sniffWindow = 1024

// Sniff recognises a file by its magic bytes.
func Sniff(b []byte) Format {
	has := func(prefix string) bool { return bytes.HasPrefix(b, []byte(prefix)) }
	switch {
	case has(pngSignature):
		return PNG
	case has("\xff\xd8\xff"):
		return JPEG
	case has("GIF87a"), has("GIF89a"):
		return GIF
	case has("RIFF") && len(b) >= 12 && string(b[8:12]) == "WEBP":
		return WebP
	case has("II*\x00"), has("MM\x00*"), has("II+\x00"), has("MM\x00+"):
		return TIFF
	case has("8BPS"):
		return PSD
	case has("\x00\x00\x01\x00"), has("\x00\x00\x02\x00"):
		return ICO
	case has("\xff\x0a"), has("\x00\x00\x00\x0cJXL \r\n\x87\n"):
		return JPEGXL
	case has("\x00\x00\x00\x0cjP  \r\n\x87\n"):
		return JPEG2K
	case has("PK\x03\x04"), has("PK\x05\x06"):
		return ZIP
	case has("BM") && len(b) >= 18 && binary.LittleEndian.Uint32(b[14:]) <= 256:
		return BMP
	case len(b) >= 12 && string(b[4:8]) == "ftyp":
		return sniffISO(b)
	}
	return sniffText(b)
}

// sniffISO tells apart the boxes that share the ISO base media layout by their major and compatible brands.
func sniffISO(b []byte) Format {
	end := min(int(binary.BigEndian.Uint32(b)), len(b), 256)
	for i := 8; i+4 <= end; i += 4 {
		if i == 12 { // the minor version stands between the major brand and the compatible ones
			continue
		}
		switch string(b[i : i+4]) {
		case "avif", "avis":
			return AVIF
		case "heic", "heix", "heim", "heis", "hevc", "hevx":
			return HEIC
		}
	}
	if end >= 12 && (string(b[8:12]) == "mif1" || string(b[8:12]) == "msf1") {
		return HEIC
	}
	return MP4
}

func sniffText(b []byte) Format {
	head := b[:min(len(b), sniffWindow)]
	if bytes.Contains(head, []byte("%PDF-")) {
		return PDF
	}
	text := bytes.ToLower(bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n"))
	if bytes.HasPrefix(text, []byte("<")) {
		svg, html := bytes.Index(text, []byte("<svg")), -1
		for _, tag := range []string{"<!doctype html", "<html", "<head", "<body"} {
			if i := bytes.Index(text, []byte(tag)); i >= 0 && (html < 0 || i < html) {
				html = i
			}
		}
		switch {
		case html >= 0 && (svg < 0 || html < svg):
			return HTML
		case svg >= 0, bytes.HasPrefix(text, []byte("<!doctype svg")):
			return SVG
		}
	}
	if len(head) > 0 && isText(head, len(b) > len(head)) {
		return Text
	}
	return Unknown
}

// isText reports whether head is UTF-8 without control characters; where it was cut from something longer, its last
// character may be incomplete.
func isText(head []byte, cut bool) bool {
	for i := 0; i < len(head); {
		r, n := utf8.DecodeRune(head[i:])
		if r == utf8.RuneError && n == 1 {
			return cut && i > len(head)-utf8.UTFMax && i > 0
		}
		if r < ' ' && r != '\t' && r != '\r' && r != '\n' && r != '\f' {
			return false
		}
		i += n
	}
	return true
}
