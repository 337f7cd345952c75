package offline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/image/draw"
)

const (
	readTimeout = 60 * time.Second
	maxRead     = 1 << 20 // bytes of tesseract's table that are kept
	// tesseract reads letters of some 20 pixels best. Where those of a first reading were far from that, a second one
	// is made of the picture enlarged or reduced, for it alone.
	smallLetters, goodLetters, largeLetters = 14, 20, 36
	maxEnlarged                             = 24 << 20 // pixels
)

var errNoTesseract = errors.New("tesseract is not installed")

// read returns the text in a picture; its text is empty when there is none.
func (m *Model) read(ctx context.Context, img image.Image) (reading, error) {
	if m.tesseract == "" {
		return reading{}, errNoTesseract
	}
	select {
	case m.busy <- struct{}{}:
		defer func() { <-m.busy }()
	case <-ctx.Done():
		return reading{}, ctx.Err()
	}
	ctx, stop := context.WithTimeout(ctx, readTimeout)
	defer stop()
	flat := flatten(img)
	first, err := m.run(ctx, flat, "3") // columns and blocks
	if err != nil {
		return reading{}, err
	}
	scale, mode := 2.0, "11" // nothing found: enlarged, and any single word
	if first.text != "" {
		if first.letters >= smallLetters && first.letters <= largeLetters {
			return first, nil
		}
		scale, mode = min(4, max(0.25, goodLetters/float64(first.letters))), "3"
	}
	scaled := resize(flat, scale)
	if scaled == nil {
		return first, nil
	}
	second, err := m.run(ctx, scaled, mode)
	if err != nil {
		return reading{}, err
	}
	if second.confidence > first.confidence {
		return second, nil
	}
	return first, nil
}

func (m *Model) run(ctx context.Context, img image.Image, mode string) (reading, error) {
	var in bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&in, img); err != nil {
		return reading{}, fmt.Errorf("encode for tesseract: %w", err)
	}
	cmd := exec.CommandContext(ctx, m.tesseract, "stdin", "stdout", "--psm", mode, "--dpi", "150", "-c", "tessedit_create_tsv=1")
	cmd.WaitDelay = 2 * time.Second
	cmd.Env = []string{"OMP_THREAD_LIMIT=1", "LC_ALL=C"} // nothing else of ours, keys least of all
	if dir := os.Getenv("TESSDATA_PREFIX"); dir != "" {
		cmd.Env = append(cmd.Env, "TESSDATA_PREFIX="+dir)
	}
	out, problems := &bounded{max: maxRead}, &bounded{max: 2 << 10}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, out, problems
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return reading{}, ctx.Err()
		}
		return reading{}, fmt.Errorf("run tesseract: %w: %s", err, strings.Join(strings.Fields(problems.String()), " "))
	}
	return parseTable(out.String()), nil
}

// flatten is the picture in gray on white: what is transparent is read as paper.
func flatten(img image.Image) *image.Gray {
	b := img.Bounds()
	flat := image.NewGray(image.Rect(0, 0, b.Dx(), b.Dy()))
	draw.Draw(flat, flat.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.Draw(flat, flat.Bounds(), img, b.Min, draw.Over)
	return flat
}

// resize returns nil when nothing would be won, or too much memory lost.
func resize(img *image.Gray, scale float64) image.Image {
	w, h := int(float64(img.Rect.Dx())*scale), int(float64(img.Rect.Dy())*scale)
	if w < 1 || h < 1 || w > maxEnlarged/h {
		return nil
	}
	out := image.NewGray(image.Rect(0, 0, w, h))
	draw.BiLinear.Scale(out, out.Bounds(), img, img.Bounds(), draw.Src, nil)
	return out
}

// bounded keeps the first max bytes and swallows the rest, so that the writer is never blocked.
type bounded struct {
	bytes.Buffer
	max int
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.max - b.Len(); room > 0 {
		_, _ = b.Buffer.Write(p[:min(len(p), room)]) // never fails
	}
	return len(p), nil
}
