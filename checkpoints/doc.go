// Package checkpoints is the Postgres of Sightline: it opens and migrates it,
// and stores what must survive a crash: places, messages and attachment rows,
// the trail of uses, turns, their append-only steps, receipts, posts,
// drafts, pixel-free audit bodies and quarantined digests.
//
// It refuses what a CHECK can refuse: bodies over their size, malformed IDs
// and digests, steps rewritten. It holds no pixels, no base64 and no
// connector URLs: no column is made for them.
//
// On failure it answers with one of four errors (ErrNotFound, ErrConflict,
// ErrUnavailable, ErrInvalid), translated from the driver's once, with the
// operation's name in front; the cause's text never quotes a row.
package checkpoints
