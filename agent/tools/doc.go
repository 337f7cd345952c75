// Package tools holds the tools that the model may call, one file each.
//
// A tool owns the meaning of its arguments and the words of its answer. It
// refuses arguments that are not exactly its schema's (unknown fields too),
// names that are not attachment IDs, and actors it does not serve. When it
// can't establish something it returns an error, so that the call is tried
// again; everything else is an answer for the model, in one JSON object, with
// the trusted facts beside it for the receipt.
package tools
