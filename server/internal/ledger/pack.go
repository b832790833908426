package ledger

import (
	"maps"
	"strings"

	"github.com/eiderhq/eider"
)

// words shares what is alike in many records: zones, names of ports and of metadata. It never forgets, so
// it is bounded; beyond that each record has its own. (Handles of package unique would have to be kept as
// well: a string alone doesn't hold its canonical copy.)
type words map[string]string

const maxWords = 4096

func (w words) share(s string) string {
	if s == "" {
		return ""
	}
	if known, ok := w[s]; ok {
		return known
	}
	s = strings.Clone(s)
	if len(w) < maxWords {
		w[s] = s
	}
	return s
}

// pack copies a record so that it pins nothing of the message it came in. What can't be shared is one
// string, cut up.
func (w words) pack(rec eider.Record, service string) eider.Record {
	size := len(rec.ID) + len(rec.Address)
	for _, value := range rec.Metadata {
		size += len(value)
	}
	var all strings.Builder
	all.Grow(size)
	piece := func(s string) string {
		from := all.Len()
		all.WriteString(s)
		return all.String()[from:]
	}
	rec.Service, rec.ID, rec.Address, rec.Zone = service, piece(rec.ID), piece(rec.Address), w.share(rec.Zone)
	if len(rec.Ports) > 0 {
		ports := make(map[string]uint16, len(rec.Ports))
		for name, port := range rec.Ports {
			ports[w.share(name)] = port
		}
		rec.Ports = ports
	} else {
		rec.Ports = nil
	}
	if len(rec.Metadata) > 0 {
		metadata := make(map[string]string, len(rec.Metadata))
		for name, value := range rec.Metadata {
			metadata[w.share(name)] = piece(value)
		}
		rec.Metadata = metadata
	} else {
		rec.Metadata = nil
	}
	return rec
}

// repack is pack for a key of which something is known, or nothing yet: what is the same stays shared
// with what was, and so does the key. It tells whether all of it did.
func (w words) repack(rec, was eider.Record, service string) (eider.Record, bool) {
	if was.Status == eider.StatusUnknown {
		return w.pack(rec, service), false
	}
	same := rec.Address == was.Address && rec.Zone == was.Zone && maps.Equal(rec.Ports, was.Ports) && maps.Equal(rec.Metadata, was.Metadata)
	if same {
		rec.Address, rec.Zone, rec.Ports, rec.Metadata = was.Address, was.Zone, was.Ports, was.Metadata
	} else {
		rec = w.pack(rec, service)
	}
	rec.Key = was.Key
	return rec, same
}

// stub is what a tombstone keeps of a record: what orders it, and how it ended.
func stub(rec eider.Record) eider.Record {
	return eider.Record{Key: eider.Key{Service: rec.Service, ID: strings.Clone(rec.ID)}, Incarnation: rec.Incarnation,
		Attachment: rec.Attachment, Version: rec.Version, Status: rec.Status}
}
