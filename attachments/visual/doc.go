// Package visual turns the bytes of a posted picture into what a model is shown, within bounds.
//
// It owns the recognition of files by their bytes; the bounds of storage, scans, frames and lengths, read from headers;
// the one decoding slot of the process; and what is sent: the posted bytes with their metadata stripped, or the picture
// encoded again, upright, in 8-bit RGB, at native resolution or reduced, never enlarged. It knows nothing of
// attachments, grants, platforms or models: bytes come in, a Picture or a Refusal comes out.
//
// It refuses whatever it does not decode in full (every format but PNG, JPEG, GIF and WebP; arithmetic, lossless and
// 12-bit JPEG; CMYK without an Adobe marker; truncated and damaged files), and whatever would take more than its Limits
// before it is decoded, never after. It never believes a name or a declared type, never opens a URL and never keeps a
// pixel: a Picture formats and logs without its bytes and does not marshal.
//
// On failure it returns a *Refusal, in one text for the person and the model, with numbers and a way out, and another
// for operators. A cancelled context returns ctx.Err() instead. Verdicts, good and bad, are kept by SHA-256 digest, so a
// damaged file is decoded once and a good one is not validated again at the next inference; a cancellation is never
// kept, and an exceeded deadline, which may be the machine's fault, for ten minutes. A decoder that panics is a damaged
// file.
//
// The way of a picture:
//
//	bytes --ReadHeader--> Header --known digest?--yes--> verdict
//	            |                        |no
//	         Refusal                     v
//	                        wait for the slot (ctx)
//	                                     |
//	                   decode or validate (ctx, deadline)
//	                      |              |              |
//	                   Refusal       ctx.Err()       verdict kept
//	                                                    |
//	               as posted, stripped <--can be sent?--+--no--> upright, cut, reduced, encoded
//
// # Memory
//
// Header.Out is what Go allocates for the decoded picture (equal to it on every accepted file of the corpora, which a
// test checks), Header.Transient what its decoder may need on top. Decoding every hostile and benchmark file twice in a
// row grew the process by 173 MiB; TestHostile allows 300. Garbage is collected before the slot is given up. A PNG is
// validated without an image: inflated row by row, in about 100 KiB.
//
// # Speed
//
// Go 1.26.8, linux/amd64, two shared virtual cores, best of a run; the corpora are needed.
//
//	go test -run '^$' -bench . ./attachments/visual
//
// Rebuild of a known digest between reading the bytes and encoding them as base64, against that alone
// (BenchmarkRebuildKnown), and a first Validate against the plain decoder (BenchmarkValidate), both in one run:
//
//	file               base64     with Rebuild      decoder   Validate
//	1080p PNG          0.63 ms    0.72 ms  x1.13      58 ms      14 ms  x0.24
//	4K PNG             1.60 ms    1.88 ms  x1.18     230 ms      94 ms  x0.41
//	12 MP JPEG         1.74 ms    1.75 ms  x1.01     432 ms     395 ms  x0.91
//	12 MP progressive  1.69 ms    1.67 ms  x0.99     903 ms     982 ms  x1.09
//	4K lossy WebP      0.36 ms    0.36 ms  x1.01     225 ms     181 ms  x0.80
//
// The two PNGs have something to strip and are copied each time; the others are sent as they are. The times of decoders
// come from a busy machine and are good for their ratios only. Without a digest from the caller, Rebuild adds one
// SHA-256 of the bytes (1.3 ms for 2.3 MB). Headers take 0.4 us (WebP) to 0.8 ms (12 MP JPEG, whose scans are looked
// for). Reducing a 12 MP JPEG to 1568 pixels takes about 0.8 s in all.
package visual
