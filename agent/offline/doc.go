// Package offline is the model for someone without a key: fixed rules behind the agent.Model port, no network, no
// language model. It says so in its first answer of a conversation.
//
// It owns what those rules are: it decodes the pictures that it was sent and states their type, size and main colours; it
// reads their text with tesseract where that is installed; it quotes what documents say; and it calls list_documents,
// view_images and read_document on plain requests, choosing by ID, file name, sort of file (picture, PDF, spreadsheet)
// and place in the conversation (first, second, last, the one before). That makes it the honest witness in tests: what it
// reports of a picture can only come from pixels that arrived.
//
// The sort that a request names decides among which files it looks. Files that come with a message are what it is about,
// all of them, unless it names others. A page of a PDF is looked at, and the text that the file has for it is quoted.
//
// It refuses to guess. A picture that was not shown is said to be not shown, with the reason that was given; a name or a
// sort that matches nothing is answered with what there is; where several files could be meant it says which one it took;
// a question about one file is never answered from another. What it can't do (import, compare, calculate) it says.
//
// On failure it answers with the failure (a picture that does not decode, a document that can't be read, tesseract missing
// or failing), and still answers for the other files of the request; the only error that Generate returns is the context's.
//
// One turn, over as many inferences as it takes:
//
//	request --(ID, own files)--------------> choice --> read_document, one by one --> view_images --> answer
//	   |                                        ^            (documents)              (pictures that are not shown)
//	   +--(name, sort, place)-> list_documents -+------------------------------------------------> "nothing matches"
//	   +--("list")------------> list_documents ---------------------------------------------------> a list
//	   +--(nothing about files, or something it can't do)-----------------------------------------> what it can do
package offline
