package document

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"math"
	"slices"

	"github.com/klippa-app/go-pdfium/enums"
	"github.com/klippa-app/go-pdfium/requests"

	"sightline/attachments/visual"
)

// nativeDPI is the resolution at which a page has its native pixels, in which regions are given: that of a good scan.
const nativeDPI = 300

// PageCount returns the number of pages of a PDF. Its errors are those of Read.
func (r *Reader) PageCount(ctx context.Context, b []byte) (n int, err error) {
	err = r.onPDF(ctx, b, func(_ *stop, f *pdfFile) error {
		n = f.pages
		return nil
	})
	return n, err
}

// RenderPage makes the picture of a page of a PDF, counted from 1, as large as the target takes, or of a region of it at
// native resolution. A page has native pixels as if scanned at 300 dpi, less where that would pass the limits; Picture
// says how many. It is drawn at the size that is sent and never scaled. Its errors are those of Read.
func (r *Reader) RenderPage(ctx context.Context, b []byte, page int, t visual.Target, region *visual.Region) (pic visual.Picture, err error) {
	err = r.onPDF(ctx, b, func(s *stop, f *pdfFile) error {
		if page < 1 || page > f.pages {
			return refuse(OutsideDocument, fmt.Sprintf("This PDF has %s %s; there is no page %d.", count(f.pages), plural(Page, f.pages), page), "pdf: page %d of %d", page, f.pages)
		}
		pic, err = r.render(s, f, page, t, region)
		return err
	})
	if err != nil {
		return visual.Picture{}, err
	}
	return pic, nil
}

// onPDF runs work on b as the only reading of the process.
func (r *Reader) onPDF(ctx context.Context, b []byte, work func(*stop, *pdfFile) error) error {
	if err := r.admit(b, PDF); err != nil {
		return err
	}
	if !bytes.Contains(b[:min(len(b), 1024)], []byte("%PDF-")) {
		return refuse(NoPages, "This is not a PDF, and only PDFs have pages that can be shown.", "not a pdf")
	}
	return r.inSlot(ctx, PDF, func(s *stop) error {
		return r.withPDF(s, b, func(f *pdfFile) error { return work(s, f) })
	})
}

func (r *Reader) render(s *stop, f *pdfFile, page int, t visual.Target, region *visual.Region) (visual.Picture, error) {
	size, err := f.FPDF_GetPageSizeByIndex(&requests.FPDF_GetPageSizeByIndex{Document: f.doc, Index: page - 1})
	if err != nil {
		return visual.Picture{}, pdfError(err)
	}
	v := view{limits: r.limits, target: t}
	if err := v.native(size.Width, size.Height); err != nil {
		return visual.Picture{}, err
	}
	v.note("page %d of %d", page, f.pages)
	if err := v.cut(region); err != nil {
		return visual.Picture{}, err
	}
	var pic visual.Picture
	err = f.page(page, func(p requests.Page) error {
		if f.undrawn(p) {
			v.note("Chinese, Japanese or Korean characters are missing from this picture, since their font is not part of the PDF; read_document with pages=%d has their text", page)
		}
		pic, err = v.picture(s, func(w, h int) (*image.RGBA, error) { return v.draw(f, p, w, h) })
		return err
	})
	return pic, err
}

// view is a page, or a part of it, on its way into a target.
type view struct {
	limits Limits
	target visual.Target
	w, h   int // native
	part   visual.Region
	notes  []string
}

func (v *view) note(format string, args ...any) {
	v.notes = append(v.notes, fmt.Sprintf(format, args...))
}

// native sets the native pixels of a page of so many points.
func (v *view) native(w, h float64) error {
	if !(w > 0 && h > 0) || math.IsInf(w, 0) || math.IsInf(h, 0) {
		return corrupt(PDF, "a page of %gx%g points", w, h)
	}
	s := nativeDPI / 72.0
	s = min(s, float64(v.limits.MaxEdge)/max(w, h), math.Sqrt(float64(v.limits.MaxPixels)/(w*h)))
	v.w, v.h = max(1, int(w*s+1e-6)), max(1, int(h*s+1e-6))
	return nil
}

func (v *view) cut(region *visual.Region) error {
	v.part = visual.Region{Width: v.w, Height: v.h}
	if region == nil {
		return nil
	}
	r := *region
	if r.X < 0 || r.Y < 0 || r.Width <= 0 || r.Height <= 0 || r.X > v.w-r.Width || r.Y > v.h-r.Height {
		return refuse(OutsideDocument, fmt.Sprintf("The region %s (x, y, width, height) is not inside the page, which is %dx%d pixels.", r, v.w, v.h),
			"region %s of %dx%d", r, v.w, v.h)
	}
	if r != v.part {
		v.part = r
		v.note("region %s (x, y, width, height) of %dx%d", r, v.w, v.h)
	}
	return nil
}

// fit returns the largest size for the part that the target takes and the limits allow, never larger than the part.
func (v *view) fit() (int, int) {
	w, h := float64(v.part.Width), float64(v.part.Height)
	s := min(1, math.Sqrt(float64(v.limits.MaxStorage)/(4*w*h)), float64(v.limits.MaxEdge)/max(w, h))
	if v.target.MaxEdge > 0 {
		s = min(s, float64(v.target.MaxEdge)/max(w, h))
	}
	if v.target.MaxPixels > 0 {
		s = min(s, math.Sqrt(float64(v.target.MaxPixels)/(w*h)))
	}
	return max(1, int(w*s+1e-9)), max(1, int(h*s+1e-9))
}

// draw has the engine draw the part at a size.
func (v *view) draw(f *pdfFile, p requests.Page, w, h int) (*image.RGBA, error) {
	bitmap, err := f.FPDFBitmap_Create(&requests.FPDFBitmap_Create{Width: w, Height: h, Alpha: 0})
	if err != nil {
		return nil, pdfError(err)
	}
	defer func() { _, _ = f.FPDFBitmap_Destroy(&requests.FPDFBitmap_Destroy{Bitmap: bitmap.Bitmap}) }()
	if _, err := f.FPDFBitmap_FillRect(&requests.FPDFBitmap_FillRect{Bitmap: bitmap.Bitmap, Width: w, Height: h, Color: 0xffffffff}); err != nil {
		return nil, pdfError(err)
	}
	sx, sy := float64(w)/float64(v.part.Width), float64(h)/float64(v.part.Height)
	_, err = f.FPDF_RenderPageBitmap(&requests.FPDF_RenderPageBitmap{
		Bitmap: bitmap.Bitmap, Page: p,
		StartX: -int(math.Round(float64(v.part.X) * sx)), StartY: -int(math.Round(float64(v.part.Y) * sy)),
		SizeX: max(1, int(math.Round(float64(v.w)*sx))), SizeY: max(1, int(math.Round(float64(v.h)*sy))),
		Flags: enums.FPDF_RENDER_FLAG_ANNOT,
	})
	if err != nil {
		return nil, pdfError(err)
	}
	stride, err := f.FPDFBitmap_GetStride(&requests.FPDFBitmap_GetStride{Bitmap: bitmap.Bitmap})
	if err != nil {
		return nil, pdfError(err)
	}
	pixels, err := f.FPDFBitmap_GetBuffer(&requests.FPDFBitmap_GetBuffer{Bitmap: bitmap.Bitmap})
	if err != nil {
		return nil, pdfError(err)
	}
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h { // blue, green, red and nothing
		src, dst := pixels.Buffer[y*stride.Stride:][:4*w], m.Pix[y*m.Stride:][:4*w]
		for i := 0; i < len(dst); i += 4 {
			dst[i], dst[i+1], dst[i+2], dst[i+3] = src[i+2], src[i+1], src[i], 255
		}
	}
	return m, nil
}

// smallestStep is the factor by which a page is drawn smaller when it takes too many bytes, and maxSteps how often.
const (
	smallestStep = 0.75
	maxSteps     = 10
)

// picture draws and encodes, smaller where the bytes are too many.
func (v *view) picture(s *stop, draw func(w, h int) (*image.RGBA, error)) (visual.Picture, error) {
	t := v.target
	w, h := v.fit()
	ways := encodings(t)
	if len(ways) == 0 {
		return visual.Picture{}, refuse(TargetUnreachable, "The model takes neither PNG nor JPEG pictures, so pages can't be shown to it.", "no encoding among %v", t.Formats)
	}
	for step := 0; step < maxSteps && min(w, h) >= max(t.MinEdge, 1); step++ {
		m, err := draw(w, h)
		if err != nil {
			return visual.Picture{}, err
		}
		for _, way := range ways {
			if err := s.check(); err != nil {
				return visual.Picture{}, err
			}
			out, err := way.encode(m)
			if err != nil {
				return visual.Picture{}, fmt.Errorf("encode page: %w", err)
			}
			if t.MaxBytes > 0 && int64(len(out)) > t.MaxBytes {
				continue
			}
			if w != v.part.Width || h != v.part.Height {
				v.note("drawn at %dx%d of %dx%d pixels; ask for a region to see more", w, h, v.part.Width, v.part.Height)
			}
			return visual.Picture{MIME: way.format.MIME(), Bytes: out, Width: w, Height: h, NativeWidth: v.w, NativeHeight: v.h, Notes: v.notes, Reencoded: true}, nil
		}
		w, h = int(float64(w)*smallestStep), int(float64(h)*smallestStep)
	}
	return visual.Picture{}, refuse(TargetUnreachable, "This page can't be made to fit what the model takes. Ask for a region of it, or import the PDF into a workspace (where one is enabled).",
		"pdf: %dx%d does not fit %+v", v.part.Width, v.part.Height, t)
}

// pageEncoding is one way to write a drawn page.
type pageEncoding struct {
	format  visual.Format
	quality int // of JPEG
}

// encodings returns the ways to try in turn: PNG keeps small text sharp, JPEG is for pages that are photos.
func encodings(t visual.Target) []pageEncoding {
	takes := func(f visual.Format) bool { return len(t.Formats) == 0 || slices.Contains(t.Formats, f) }
	var ways []pageEncoding
	if takes(visual.PNG) {
		ways = append(ways, pageEncoding{format: visual.PNG})
	}
	if takes(visual.JPEG) {
		ways = append(ways, pageEncoding{visual.JPEG, 90}, pageEncoding{visual.JPEG, 75})
	}
	return ways
}

func (e pageEncoding) encode(m *image.RGBA) ([]byte, error) {
	var buf bytes.Buffer
	if e.format == visual.PNG {
		err := png.Encode(&buf, m)
		return buf.Bytes(), err
	}
	err := jpeg.Encode(&buf, m, &jpeg.Options{Quality: e.quality})
	return buf.Bytes(), err
}
