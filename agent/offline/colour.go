package offline

import (
	"fmt"
	"image"
	"image/color"
	"slices"
	"strings"
)

const (
	maxSamples   = 40_000
	worthTelling = 3 // percent
	maxColours   = 4
)

// colours names the main colours with their share of the pixels, largest first.
func colours(img image.Image) string {
	b := img.Bounds()
	stride := 1
	for (b.Dx()/stride)*(b.Dy()/stride) > maxSamples {
		stride++
	}
	count := map[string]int{}
	total := 0
	for y := b.Min.Y; y < b.Max.Y; y += stride {
		for x := b.Min.X; x < b.Max.X; x += stride {
			count[colourName(img.At(x, y))]++
			total++
		}
	}
	names := make([]string, 0, len(count))
	for n := range count {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b string) int {
		if count[a] != count[b] {
			return count[b] - count[a]
		}
		return strings.Compare(a, b)
	})
	var out []string
	for i, n := range names {
		percent := (count[n]*100 + total/2) / total
		if i > 0 && (percent < worthTelling || i == maxColours) {
			break
		}
		out = append(out, fmt.Sprintf("%s %d%%", n, percent))
	}
	return strings.Join(out, ", ")
}

// colourName sorts a colour into a handful of everyday names.
func colourName(c color.Color) string {
	n := color.NRGBAModel.Convert(c).(color.NRGBA)
	if n.A < 32 {
		return "transparent"
	}
	r, g, b := int(n.R), int(n.G), int(n.B)
	hi, lo := max(r, g, b), min(r, g, b)
	chroma := hi - lo
	switch {
	case hi < 40:
		return "black"
	case lo > 225 && chroma < 24:
		return "white"
	case chroma*5 < hi: // barely saturated
		return "gray"
	}
	hue := 0
	switch hi {
	case r:
		hue = (60*(g-b)/chroma + 360) % 360
	case g:
		hue = 60*(b-r)/chroma + 120
	default:
		hue = 60*(r-g)/chroma + 240
	}
	dark := hi < 150
	switch {
	case hue < 15 || hue >= 345:
		if lo > 130 {
			return "pink"
		}
		return "red"
	case hue < 45:
		if dark {
			return "brown"
		}
		return "orange"
	case hue < 70:
		return "yellow"
	case hue < 165:
		return "green"
	case hue < 200:
		return "cyan"
	case hue < 260:
		return "blue"
	case hue < 300:
		return "purple"
	}
	return "pink"
}
