package offline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"strings"

	"golang.org/x/image/webp"

	"sightline/agent"
	"sightline/attachments/visual"
)

// maxPixels is a second look at what the bounded decoder already bounded: this package decodes again.
const maxPixels = 64 << 20

// describe says what can be said of one picture that arrived; its text only where that is not known better. Its only
// error is the context's.
func (m *Model) describe(ctx context.Context, t *turn, p agent.ShownPicture, ocr bool) (string, error) {
	name := t.called(pictured(p))
	format := visual.Sniff(p.Picture.Bytes)
	img, err := decode(ctx, format, p.Picture.Bytes)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		m.log.Debug("offline: picture does not decode", "format", string(format), "err", err)
		return name + " arrived, but its pixels can't be decoded, so I can say nothing of what is in it.", nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, %dx%d pixels (%s).\nMain colours: %s.\n",
		name, kind(format), img.Bounds().Dx(), img.Bounds().Dy(), extent(p), colours(img))
	if !ocr {
		return strings.TrimSpace(b.String()), nil
	}
	text, err := m.read(ctx, img)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, errNoTesseract):
		b.WriteString("I can't read text in it: " + installHint + ".")
	case err != nil:
		m.log.Warn("offline: tesseract failed", "err", err)
		b.WriteString("I could not read text in it: tesseract failed.")
	case text.text == "":
		b.WriteString("No text was found in it with tesseract.")
	default:
		fmt.Fprintf(&b, "Text, as tesseract reads it (%d%% sure):\n> %s", text.confidence, strings.ReplaceAll(text.text, "\n", "\n> "))
	}
	return b.String(), nil
}

func kind(f visual.Format) string {
	if f == visual.WebP {
		return "WebP"
	}
	return strings.ToUpper(string(f))
}

// extent says which part of the posted picture this is, as the label before it does.
func extent(p agent.ShownPicture) string {
	if l := label.FindStringSubmatch(p.Label); l != nil {
		return l[3]
	}
	if len(p.Picture.Notes) > 0 {
		return strings.Join(p.Picture.Notes, "; ")
	}
	return "whole"
}

func decode(ctx context.Context, f visual.Format, b []byte) (image.Image, error) {
	decoders := map[visual.Format]struct {
		config func(io.Reader) (image.Config, error)
		image  func(io.Reader) (image.Image, error)
	}{
		visual.PNG:  {png.DecodeConfig, png.Decode},
		visual.JPEG: {jpeg.DecodeConfig, jpeg.Decode},
		visual.GIF:  {gif.DecodeConfig, gif.Decode}, // the first frame
		visual.WebP: {webp.DecodeConfig, webp.Decode},
	}
	d, ok := decoders[f]
	if !ok {
		return nil, errors.New("no picture type that is decoded here")
	}
	c, err := d.config(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	if c.Width <= 0 || c.Height <= 0 || c.Width > maxPixels/c.Height {
		return nil, fmt.Errorf("%dx%d pixels", c.Width, c.Height)
	}
	return d.image(&cancellable{ctx, bytes.NewReader(b)})
}

// cancellable ends a decoder when the context ends, in pieces small enough for JPEG's many passes.
type cancellable struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancellable) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p[:min(len(p), 512)])
}
