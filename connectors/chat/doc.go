// Package chat is the vocabulary that connectors and the rest of Sightline
// share: typed identifiers, actors, places, messages, files, events, replies
// and the metadata row of an attachment.
//
// It owns names only. It does no I/O of its own (a ReplyFile copies what its
// maker opens), imports nothing but the standard library and knows no
// platform: a platform's own identifiers travel through
// it as opaque strings, and only the connector that wrote them reads them.
//
// It refuses nothing at run time, but its zero values deny: the zero Role is
// a stranger, the zero FileState is unknown and is never fetched.
package chat
