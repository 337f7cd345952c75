// Package offline is the model for someone without a key: fixed rules behind the agent.Model port, no network, no
// language model. It says so in its first answer of a conversation.
//
// It owns what those rules are: it decodes the pictures that it was sent and states their type, size and main colours; it
// reads their text with tesseract where that is installed; and it calls list_documents and view_images on plain
// requests, choosing by ID, file name or place in the conversation (first, second, last, the one before). That makes it
// the honest witness in tests: what it reports of a picture can only come from pixels that arrived.
//
// It refuses to guess. A picture that was not shown is said to be not shown, with the reason that was given; a name that
// matches nothing is answered with what there is; a question about one picture is never answered from another.
//
// On failure it answers with the failure (a picture that does not decode, tesseract missing or failing); the only error
// that Generate returns is the context's.
//
// One turn, over as many inferences as it takes:
//
//	request --(id)-----------------------> view_images -> pictures -> answer
//	   |                                        ^
//	   +--(name, place, "list")-> list_documents+-------------------> answer (a list, or "nothing matches")
//	   +--(pictures shown, nothing else meant)----------------------> answer
package offline
