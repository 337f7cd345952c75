package visual

import "image"

// render reads a part of r at the given size, which is never larger than the part. Unscaled pixels are exactly those
// of the decoded picture; a palette is kept where nothing is scaled, and gray stays gray.
func render(s *stop, r *raster, part Region, w, h int) (image.Image, error) {
	scaled := w != part.Width || h != part.Height
	if r.index != nil && !scaled {
		return renderPalette(s, r, part)
	}
	dst, put := newSink(r, w, h)
	if !scaled {
		row := make([]byte, 4*w)
		for y := range h {
			if err := s.check(); err != nil {
				return nil, err
			}
			r.row(part.X, part.Y+y, row)
			put(y, row)
		}
		return dst, nil
	}
	return dst, reduce(s, r, part, w, h, put)
}

func renderPalette(s *stop, r *raster, part Region) (image.Image, error) {
	dst := image.NewPaletted(image.Rect(0, 0, part.Width, part.Height), r.pal)
	for y := range part.Height {
		if err := s.check(); err != nil {
			return nil, err
		}
		row := dst.Pix[y*dst.Stride:][:part.Width]
		for x := range row {
			row[x] = r.index(r.stored(part.X+x, part.Y+y))
		}
	}
	return dst, nil
}

// newSink returns an image of the smallest type that holds the pixels of r, and how to put a row of them into it.
func newSink(r *raster, w, h int) (image.Image, func(y int, row []byte)) {
	rect := image.Rect(0, 0, w, h)
	switch {
	case r.gray:
		m := image.NewGray(rect)
		return m, func(y int, row []byte) {
			dst := m.Pix[y*m.Stride:][:w]
			for x := range dst {
				dst[x] = row[4*x]
			}
		}
	case r.opaque: // with full alpha RGBA and NRGBA are the same bytes, and encoders are faster with RGBA
		m := image.NewRGBA(rect)
		return m, func(y int, row []byte) { copy(m.Pix[y*m.Stride:], row) }
	}
	m := image.NewNRGBA(rect)
	return m, func(y int, row []byte) { copy(m.Pix[y*m.Stride:], row) }
}

// reduce scales a part down by averaging the area that each new pixel covers: every source pixel counts, so thin
// strokes fade instead of vanishing. It holds one row at a time; the kernels of x/image/draw hold 32 bytes a pixel.
func reduce(s *stop, r *raster, part Region, w, h int, put func(y int, row []byte)) error {
	src := make([]byte, 4*part.Width)
	sum := make([]float32, 4*w)
	line := make([]float32, 4*w)
	out := make([]byte, 4*w)
	xs, ys := float64(part.Width)/float64(w), float64(part.Height)/float64(h)
	y := 0 // of the row that is being summed
	for sy := range part.Height {
		if err := s.check(); err != nil {
			return err
		}
		r.row(part.X, part.Y+sy, src)
		reduceRow(line, src, xs)
		end := float64(y+1) * ys
		share := float32(min(1, end-float64(sy)))
		for i, v := range line {
			sum[i] += v * share
		}
		if float64(sy+1) < end && sy+1 < part.Height {
			continue
		}
		average(out, sum, float32(xs*ys))
		put(y, out)
		if y++; y == h {
			return nil
		}
		for i, v := range line {
			sum[i] = v * (1 - share)
		}
	}
	return nil
}

// reduceRow sums the premultiplied pixels of src that fall under each pixel of dst, scale wide.
func reduceRow(dst []float32, src []byte, scale float64) {
	n := len(src) / 4
	for x := 0; x < len(dst)/4; x++ {
		from, to := float64(x)*scale, float64(x+1)*scale
		var sum [4]float32
		for i := int(from); i < n && float64(i) < to; i++ {
			share := float32(min(to, float64(i+1)) - max(from, float64(i)))
			p := src[4*i : 4*i+4 : 4*i+4]
			a := float32(p[3]) * share
			sum[0] += float32(p[0]) * a
			sum[1] += float32(p[1]) * a
			sum[2] += float32(p[2]) * a
			sum[3] += a
		}
		copy(dst[4*x:], sum[:])
	}
}

// average turns sums over an area into pixels.
func average(out []byte, sum []float32, area float32) {
	for i := 0; i < len(out); i += 4 {
		a := sum[i+3]
		if a <= 0 {
			clear(out[i : i+4])
			continue
		}
		for c := range 3 {
			out[i+c] = byte(min(sum[i+c]/a+0.5, 255))
		}
		out[i+3] = byte(min(a/area+0.5, 255))
	}
}
