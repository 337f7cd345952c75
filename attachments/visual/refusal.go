package visual

import (
	"fmt"
	"math"
)

// RefusalCode says which rule a file failed.
type RefusalCode string

// The reasons for which a picture is not shown.
const (
	UnsupportedFormat  RefusalCode = "unsupported_format"  // not one of the formats shown at all
	UnsupportedFeature RefusalCode = "unsupported_feature" // a shown format, in a variant that is not decoded
	TooLargeBytes      RefusalCode = "too_large_bytes"
	TooManyPixels      RefusalCode = "too_many_pixels"
	EdgeTooLong        RefusalCode = "edge"
	StorageTooLarge    RefusalCode = "storage"
	WorkingTooLarge    RefusalCode = "working_memory"
	TooManyScans       RefusalCode = "scans"
	TooManyFrames      RefusalCode = "frames"
	ZeroSize           RefusalCode = "zero_size"
	Truncated          RefusalCode = "truncated"
	Corrupt            RefusalCode = "corrupt"
	DeadlineExceeded   RefusalCode = "deadline"
	RegionOutside      RefusalCode = "region_outside"
	TargetUnreachable  RefusalCode = "target" // the model's own limits cannot be met
)

// Refusal is the verdict "not shown", in two texts: Person is a sentence for the person and the model, with the numbers
// and a way out; Operator is for logs. Neither quotes bytes of the file.
type Refusal struct {
	Code     RefusalCode
	Person   string
	Operator string
}

// Error returns the text for operators.
func (r *Refusal) Error() string { return "visual: " + string(r.Code) + ": " + r.Operator }

const wayOut = "Post a smaller one, or import the original into a workspace (where one is enabled) and work on it there."

// refuse builds a Refusal whose operator text is the formatted one.
func refuse(code RefusalCode, person, operator string, args ...any) *Refusal {
	return &Refusal{Code: code, Person: person, Operator: fmt.Sprintf(operator, args...)}
}

// corrupt is refuse for a file that breaks its own format.
func corrupt(f Format, cause string, args ...any) *Refusal {
	return refuse(Corrupt, fmt.Sprintf("This %s is damaged and cannot be read. Post it again, or import it into a workspace (where one is enabled) to repair it there.", f.display()),
		string(f)+": "+cause, args...)
}

// truncated is refuse for a file that ends early.
func truncated(f Format, cause string, args ...any) *Refusal {
	return refuse(Truncated, fmt.Sprintf("This %s is incomplete: it ends before the picture does. Post it again, or import what there is into a workspace (where one is enabled).", f.display()),
		string(f)+": "+cause, args...)
}

// zeroSize is refuse for a picture without pixels.
func zeroSize(f Format, w, h int) *Refusal {
	return refuse(ZeroSize, fmt.Sprintf("This %s says that it is %dx%d pixels: there is nothing to show.", f.display(), w, h),
		"%s: %dx%d", f, w, h)
}

// unsupported is refuse for a variant of a shown format that its decoder does not read.
func unsupported(f Format, what string) *Refusal {
	return refuse(UnsupportedFeature,
		fmt.Sprintf("This %s cannot be shown: %s. Post it as an ordinary PNG or JPEG, or import it into a workspace (where one is enabled) and convert it there.", f.display(), what),
		"%s: %s", f, what)
}

func refuseFormat(f Format) *Refusal {
	person := ""
	switch f {
	case HTML, Text, PDF:
		person = fmt.Sprintf("This is %s, not a picture. It can be read as a document instead.", f.display())
	case Unknown:
		person = "This is not a picture of a known kind. Import it into a workspace (where one is enabled) to examine it, or post a PNG, JPEG, WebP or GIF."
	default:
		person = fmt.Sprintf("This is %s, which cannot be shown directly (PNG, JPEG, WebP and GIF can). Post it as PNG or JPEG, or import it into a workspace (where one is enabled) and convert it there.", f.display())
	}
	return refuse(UnsupportedFormat, person, "%s is not shown", f)
}

// display names a format inside a sentence: bare for the shown ones ("This JPEG ..."), with an article for the others.
func (f Format) display() string {
	switch f {
	case PNG:
		return "PNG"
	case JPEG:
		return "JPEG"
	case GIF:
		return "GIF"
	case WebP:
		return "WebP"
	case SVG:
		return "an SVG drawing"
	case TIFF:
		return "a TIFF picture"
	case HEIC:
		return "a HEIC photo"
	case AVIF:
		return "an AVIF picture"
	case BMP:
		return "a BMP picture"
	case ICO:
		return "an icon file (ICO)"
	case PSD:
		return "a Photoshop file"
	case JPEGXL:
		return "a JPEG XL picture"
	case JPEG2K:
		return "a JPEG 2000 picture"
	case MP4:
		return "a video"
	case PDF:
		return "a PDF"
	case HTML:
		return "a web page (HTML)"
	case Text:
		return "text"
	case ZIP:
		return "a ZIP archive"
	}
	return "a file of unknown kind"
}

// refuseStorage names the size, what it would take, and a size that would fit.
func refuseStorage(h Header, l Limits) *Refusal {
	s := math.Sqrt(float64(l.MaxStorage)/float64(h.Out)) * 0.98
	return refuse(StorageTooLarge,
		fmt.Sprintf("This %s of %dx%d pixels (%s) would take %s decoded; the limit is %s, which about %dx%d would meet. %s",
			h.Format.display(), h.Width, h.Height, megapixels(h.Width, h.Height), mebibytes(h.Out), mebibytes(l.MaxStorage),
			max(int(float64(h.Width)*s), 1), max(int(float64(h.Height)*s), 1), wayOut),
		"%s %s %dx%d: storage %d over %d", h.Format, h.Mode, h.Width, h.Height, h.Out, l.MaxStorage)
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func megapixels(w, h int) string { return fmt.Sprintf("%.1f megapixels", float64(w)*float64(h)/1e6) }
