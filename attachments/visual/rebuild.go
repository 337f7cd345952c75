package visual

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"runtime"
)

// Rebuild makes what a model is shown of b: the posted bytes, stripped, wherever they can be sent, and otherwise the
// picture encoded again, with a note on each thing that was done. A region is cut at native resolution, after turning
// upright. A picture is never enlarged. The errors are those of Validate, and a *Refusal of the region or the target,
// on which no verdict is kept.
func (d *Decoder) Rebuild(ctx context.Context, b []byte, t Target, region *Region) (Picture, error) {
	return d.RebuildDigest(ctx, b, sha256.Sum256(b), t, region)
}

// RebuildDigest is Rebuild for a caller that has computed the SHA-256 of b itself; see ValidateDigest. The returned
// Picture may share its bytes with b.
func (d *Decoder) RebuildDigest(ctx context.Context, b []byte, sum Digest, t Target, region *Region) (Picture, error) {
	if err := ctx.Err(); err != nil {
		return Picture{}, err
	}
	v, known := d.verdicts.get(sum, len(b))
	if known && v.refusal != nil {
		return Picture{}, v.refusal
	}
	if !known {
		h, err := ReadHeader(b, d.limits)
		if err != nil {
			_, err = d.keep(sum, len(b), h, err)
			return Picture{}, err
		}
		v = verdict{header: h}
	}
	p, err := planFor(v.header, t, region)
	if err != nil {
		return Picture{}, err
	}
	if p.original() {
		if !known {
			if v, err = d.verdict(ctx, b, sum); err != nil {
				return Picture{}, err
			}
		}
		out := b
		if !v.clean {
			if out = strip(v.header, b); same(out, b) {
				d.verdicts.setClean(sum)
			}
		}
		if t.MaxBytes <= 0 || int64(len(out)) <= t.MaxBytes {
			return p.picture(v.header.Format.MIME(), out, p.w, p.h), nil
		}
	}
	return d.reencode(ctx, b, sum, p)
}

// plan is what has to be done to a picture for a target.
type plan struct {
	header       Header
	target       Target
	part         Region // of the upright picture
	whole        bool   // part is all of it
	w, h         int    // to send
	nativeW      int
	nativeH      int
	notes        []string
	incompatible bool // the stored form can't be sent
}

func planFor(h Header, t Target, region *Region) (plan, error) {
	p := plan{header: h, target: t}
	p.nativeW, p.nativeH = h.Upright()
	p.part, p.whole = Region{Width: p.nativeW, Height: p.nativeH}, true
	if region != nil {
		r := *region
		if r.X < 0 || r.Y < 0 || r.Width <= 0 || r.Height <= 0 || r.X > p.nativeW-r.Width || r.Y > p.nativeH-r.Height {
			return p, refuse(RegionOutside,
				fmt.Sprintf("The region %s (x, y, width, height) is not inside the picture, which is %dx%d pixels.", r, p.nativeW, p.nativeH),
				"region %s of %dx%d", r, p.nativeW, p.nativeH)
		}
		p.whole = r == p.part
		p.part = r
	}
	p.w, p.h = fit(p.part.Width, p.part.Height, t)
	if e := min(p.w, p.h); e < t.MinEdge {
		return p, refuse(TargetUnreachable,
			fmt.Sprintf("This picture of %dx%d pixels would be %dx%d to the model, which reads none with a side under %d. Ask for a region of it, or import it into a workspace (where one is enabled).",
				p.part.Width, p.part.Height, p.w, p.h, t.MinEdge),
			"%dx%d under the edge of %d", p.w, p.h, t.MinEdge)
	}
	p.describe()
	p.incompatible = h.Orientation != 1 || h.cmyk || h.BitDepth == 16 || h.Format == WebP && h.partial || !t.takes(h.Format)
	return p, nil
}

// original reports whether the posted bytes can be sent.
func (p *plan) original() bool {
	return !p.incompatible && p.whole && p.w == p.part.Width && p.h == p.part.Height
}

// describe notes what the picture went through, except for what only the encoding decides.
func (p *plan) describe() {
	h := p.header
	if h.Animated && h.Frames > 1 {
		p.note("first frame of %d", h.Frames)
		if h.ownDefault {
			p.notes[0] = fmt.Sprintf("still picture of an animation of %d frames", h.Frames)
		}
	}
	if h.Orientation != 1 {
		p.note("turned upright (EXIF orientation %d)", h.Orientation)
	}
	if h.cmyk {
		p.note("converted from CMYK to RGB")
	}
	if h.BitDepth == 16 {
		p.note("converted from 16 bits a channel to 8")
	}
	if !p.whole {
		p.note("region %s (x, y, width, height) of %dx%d", p.part, p.nativeW, p.nativeH)
	}
}

func (p *plan) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

func (p *plan) picture(mime string, b []byte, w, h int) Picture {
	return Picture{MIME: mime, Bytes: b, Width: w, Height: h, NativeWidth: p.nativeW, NativeHeight: p.nativeH, Notes: p.notes}
}

// fit returns the largest size of the same shape that a target takes, never larger than w, h.
func fit(w, h int, t Target) (int, int) {
	s := 1.0
	if long := max(w, h); t.MaxEdge > 0 && long > t.MaxEdge {
		s = float64(t.MaxEdge) / float64(long)
	}
	if n := int64(w) * int64(h); t.MaxPixels > 0 && n > t.MaxPixels {
		s = min(s, math.Sqrt(float64(t.MaxPixels)/float64(n)))
	}
	return shrink(w, h, s)
}

func shrink(w, h int, s float64) (int, int) {
	if s >= 1 {
		return w, h
	}
	return max(1, int(float64(w)*s+1e-9)), max(1, int(float64(h)*s+1e-9))
}

// smallestStep is the factor by which a picture is scaled when it takes too many bytes, and maxSteps how often.
const (
	smallestStep = 0.75
	maxSteps     = 10
)

// reencode decodes and encodes within one stay in the slot. That the picture decodes is the same verdict that Validate
// comes to, and is kept.
func (d *Decoder) reencode(ctx context.Context, b []byte, sum Digest, p plan) (pic Picture, err error) {
	ways := encodings(p.target, p.header.lossy && !p.header.alpha && p.whole)
	if len(ways) == 0 {
		return Picture{}, refuse(TargetUnreachable,
			fmt.Sprintf("The model does not take %s pictures, nor PNG or JPEG. Import it into a workspace (where one is enabled).", p.header.Format.display()),
			"no encoding among %v", p.target.Formats)
	}
	decoded := false
	err = d.inSlot(ctx, p.header, func(s *stop) error {
		img, at, err := decode(s, b, p.header)
		if err != nil {
			return err
		}
		decoded = true
		r := newRaster(p.header, img, at)
		if p.header.Transient >= workingGC { // what is rendered must not come on top of the decoder's garbage
			runtime.GC()
		}
		pic, err = p.encode(s, r, ways)
		return err
	})
	switch {
	case decoded:
		if _, known := d.verdicts.get(sum, len(b)); !known {
			_, _ = d.keep(sum, len(b), p.header, nil)
		}
	case err != nil:
		_, err = d.keep(sum, len(b), p.header, err)
	}
	return pic, err
}

// encode tries the encodings, and smaller sizes, until the target takes the bytes.
func (p *plan) encode(s *stop, r *raster, ways []encoding) (Picture, error) {
	w, h := p.w, p.h
	for step := 0; step < maxSteps && (step == 0 || min(w, h) >= max(p.target.MinEdge, 1)); step++ {
		img, err := render(s, r, p.part, w, h)
		if err != nil {
			return Picture{}, err
		}
		least := int64(math.MaxInt64) // bytes of the smallest that was not tried
		for _, way := range ways {
			// Encoding takes longer than all the rest, and most of it is done before it turns out to have been for nothing.
			if limit := p.target.MaxBytes; limit > 0 && raw(img) > limit {
				n, ok, err := way.estimate(s, img)
				if err != nil {
					return Picture{}, err
				}
				if ok && float64(n) > doubt*float64(limit) {
					least = min(least, n)
					continue
				}
			}
			least = 0
			out, err := way.encode(s, img, p.target.MaxBytes)
			if errors.Is(err, errOverBudget) {
				continue
			}
			if err != nil {
				return Picture{}, err
			}
			if w != p.part.Width || h != p.part.Height {
				p.note("scaled from %dx%d to %dx%d", p.part.Width, p.part.Height, w, h)
			}
			if way.format == JPEG && transparent(img) {
				p.note("transparency put on white")
			}
			if way.format != p.header.Format {
				p.note("converted from %s to %s", p.header.Format.display(), way.format.display())
			}
			pic := p.picture(way.format.MIME(), out, w, h)
			pic.Reencoded = true
			return pic, nil
		}
		w, h = shrink(w, h, smallestStep)
		// A smaller picture takes about as many bytes a pixel; noise takes up to half as many, since it averages out. What
		// fits by no means is not rendered.
		for ; least > 0 && step+1 < maxSteps; step++ {
			least = int64(float64(least) * smallestStep * smallestStep)
			if float64(least) <= 2*doubt*float64(p.target.MaxBytes) {
				break
			}
			w, h = shrink(w, h, smallestStep)
		}
	}
	return Picture{}, refuse(TargetUnreachable,
		fmt.Sprintf("This picture can't be made small enough for the model, which takes %s. Ask for a region of it, or import it into a workspace (where one is enabled).", mebibytes(p.target.MaxBytes)),
		"%s: over %d bytes at %dx%d", p.header.Format, p.target.MaxBytes, w, h)
}
