// Package kubetest is a Kubernetes API server for tests, as far as EndpointSlices of one namespace go: list, and watch.
//
// It is written from what the documentation promises (kubernetes.io/docs/reference/using-api/api-concepts, KEP-956 for
// bookmarks) and shares no code with what it tests. It holds a client to TLS by a CA of its own, a bearer token that may
// change, and the label selectors `key`, `key=value` and `key in (a,b)`; it lists in pages, streams changes since a resourceVersion as
// chunked JSON, sends bookmarks only to those that allow them, ends watches by timeoutSeconds, answers 410 to what it has
// forgotten, as a status or as an event, and can drop a connection in the middle of an event, hang, or answer whatever a
// test likes.
//
// What it isn't: it has no endpoint controller (a test puts the slices that one would write), no storage but a map, and no
// admission, quotas or priorities. Pages of one list may show changes made in between, which the real one's don't. It reads
// no resourceVersion in a list, no fields, and speaks no protobuf. Its versions are numbers that a client mustn't compare. That
// a real cluster behaves so is for a test on a real cluster.
package kubetest
