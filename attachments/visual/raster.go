package visual

import (
	"image"
	"image/color"
)

// rgba is one pixel, 8 bits a channel, not premultiplied.
type rgba = [4]uint8

// raster reads a decoded picture as it is seen: upright, on its canvas, in 8-bit RGB with alpha. Nothing is converted
// before it is asked for, so a region of a large picture costs only itself.
type raster struct {
	w, h   int                        // upright
	pixel  func(x, y int) rgba        // of the stored picture
	line   func(x, y int, dst []byte) // len(dst)/4 stored pixels in a row; nil where there is no faster way than pixel
	index  func(x, y int) uint8       // likewise, where it has a palette and fills the canvas
	pal    color.Palette              // of index
	gray   bool                       // red, green and blue are equal and alpha is full
	opaque bool                       // alpha is full
	stored func(x, y int) (int, int)  // from upright coordinates to stored ones
}

// newRaster reads img, whose top left corner lies at the given point of the canvas of h.
func newRaster(h Header, img image.Image, at image.Point) *raster {
	r := &raster{stored: upright(h.Orientation, h.Width, h.Height)}
	r.w, r.h = h.Upright()
	r.read(img)
	b := img.Bounds()
	frame := image.Rectangle{at, at.Add(b.Size())}
	if h.Orientation != 1 {
		r.line = nil
	}
	if frame == image.Rect(0, 0, h.Width, h.Height) {
		return r
	}
	inner := r.pixel
	r.line, r.index, r.pal, r.gray, r.opaque = nil, nil, nil, false, false
	r.pixel = func(x, y int) rgba {
		if !image.Pt(x, y).In(frame) {
			return rgba{}
		}
		return inner(x-at.X, y-at.Y)
	}
	return r
}

// upright returns the map from pixels as seen to pixels as stored, for an EXIF orientation and the stored size.
func upright(orientation, w, h int) func(x, y int) (int, int) {
	switch orientation {
	case 2:
		return func(x, y int) (int, int) { return w - 1 - x, y }
	case 3:
		return func(x, y int) (int, int) { return w - 1 - x, h - 1 - y }
	case 4:
		return func(x, y int) (int, int) { return x, h - 1 - y }
	case 5:
		return func(x, y int) (int, int) { return y, x }
	case 6:
		return func(x, y int) (int, int) { return y, h - 1 - x }
	case 7:
		return func(x, y int) (int, int) { return w - 1 - y, h - 1 - x }
	case 8:
		return func(x, y int) (int, int) { return w - 1 - y, x }
	}
	return func(x, y int) (int, int) { return x, y }
}

// read sets how pixels of img are read, with its top left corner as 0, 0. The types are all that the decoders return.
func (r *raster) read(img image.Image) {
	min := img.Bounds().Min
	r.opaque = true
	switch m := img.(type) {
	case *image.Gray:
		r.gray = true
		r.pixel = func(x, y int) rgba { v := m.Pix[y*m.Stride+x]; return rgba{v, v, v, 255} }
	case *image.Gray16:
		r.gray = true
		r.pixel = func(x, y int) rgba { v := m.Pix[y*m.Stride+2*x]; return rgba{v, v, v, 255} }
	case *image.Paletted:
		r.readPalette(m)
	case *image.RGBA: // of these decoders always opaque
		r.pixel = func(x, y int) rgba { return rgba(m.Pix[y*m.Stride+4*x:]) }
		r.line = func(x, y int, dst []byte) { copy(dst, m.Pix[y*m.Stride+4*x:]) }
	case *image.NRGBA:
		r.opaque = m.Opaque()
		r.pixel = func(x, y int) rgba { return rgba(m.Pix[y*m.Stride+4*x:]) }
		r.line = func(x, y int, dst []byte) { copy(dst, m.Pix[y*m.Stride+4*x:]) }
	case *image.RGBA64: // likewise; the high bytes are the 8-bit values
		r.pixel = func(x, y int) rgba { p := m.Pix[y*m.Stride+8*x:]; return rgba{p[0], p[2], p[4], 255} }
	case *image.NRGBA64:
		r.opaque = m.Opaque()
		r.pixel = func(x, y int) rgba { p := m.Pix[y*m.Stride+8*x:]; return rgba{p[0], p[2], p[4], p[6]} }
	case *image.CMYK:
		r.pixel = func(x, y int) rgba {
			p := m.Pix[y*m.Stride+4*x:]
			red, green, blue := color.CMYKToRGB(p[0], p[1], p[2], p[3])
			return rgba{red, green, blue, 255}
		}
	case *image.YCbCr:
		r.line = func(x, y int, dst []byte) { lineYCbCr(m, x+min.X, y+min.Y, dst) }
		r.pixel = func(x, y int) rgba {
			c := m.COffset(x+min.X, y+min.Y)
			red, green, blue := color.YCbCrToRGB(m.Y[m.YOffset(x+min.X, y+min.Y)], m.Cb[c], m.Cr[c])
			return rgba{red, green, blue, 255}
		}
	case *image.NYCbCrA:
		r.opaque = m.Opaque()
		r.pixel = func(x, y int) rgba {
			c := m.COffset(x, y)
			red, green, blue := color.YCbCrToRGB(m.Y[m.YOffset(x, y)], m.Cb[c], m.Cr[c])
			return rgba{red, green, blue, m.A[y*m.AStride+x]}
		}
	default:
		r.opaque = false
		r.pixel = func(x, y int) rgba {
			c := color.NRGBAModel.Convert(img.At(x+min.X, y+min.Y)).(color.NRGBA)
			return rgba{c.R, c.G, c.B, c.A}
		}
	}
}

func (r *raster) readPalette(m *image.Paletted) {
	var table [256]rgba
	for i, c := range m.Palette {
		n := color.NRGBAModel.Convert(c).(color.NRGBA)
		table[i] = rgba{n.R, n.G, n.B, n.A}
		r.opaque = r.opaque && n.A == 255
	}
	r.pal = m.Palette
	r.index = func(x, y int) uint8 { return m.Pix[y*m.Stride+x] }
	r.pixel = func(x, y int) rgba { return table[m.Pix[y*m.Stride+x]] }
}

// lineYCbCr reads pixels in a row. The horizontal sampling is found out once for the row.
func lineYCbCr(m *image.YCbCr, x, y int, dst []byte) {
	luma := m.Y[m.YOffset(x, y):]
	chroma := m.COffset(x, y)
	every := 1
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420:
		every = 2
	case image.YCbCrSubsampleRatio411, image.YCbCrSubsampleRatio410:
		every = 4
	}
	left := every - x%every // pixels until the next chroma sample
	for i := 0; i < len(dst)/4; i++ {
		p := dst[4*i : 4*i+4 : 4*i+4]
		p[0], p[1], p[2] = color.YCbCrToRGB(luma[i], m.Cb[chroma], m.Cr[chroma])
		p[3] = 255
		if left--; left == 0 {
			left = every
			chroma++
		}
	}
}

// row reads len(dst)/4 upright pixels from x, y on.
func (r *raster) row(x, y int, dst []byte) {
	if r.line != nil {
		r.line(x, y, dst)
		return
	}
	for i := 0; i < len(dst); i += 4 {
		px := r.pixel(r.stored(x, y))
		dst[i], dst[i+1], dst[i+2], dst[i+3] = px[0], px[1], px[2], px[3]
		x++
	}
}
