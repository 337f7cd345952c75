package document

import "strings"

// readPlain returns lines of what is text already.
func readPlain(j *job) error {
	p := newPager(j.Result, j.window, j.stop, j.limits)
	d, ok := decode(j.bytes, false)
	if !ok {
		return corrupt(j.Kind, "not text in any known encoding")
	}
	j.Encoding = d.encoding
	if err := j.stop.check(); err != nil {
		return err
	}
	text := strings.TrimSuffix(d.text, "\n")
	if strings.Contains(text, "\r") {
		text = strings.ReplaceAll(strings.TrimSuffix(text, "\r"), "\r\n", "\n")
		text = strings.ReplaceAll(text, "\r", "\n") // line ends of old Macs
	}
	if text != "" {
		if err := p.add(text); err != nil {
			return err
		}
	}
	if err := p.flat(); err != nil {
		return err
	}
	p.finish()
	return nil
}
