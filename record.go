package eider

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds on what anybody may register. They are part of the protocol: every node holds to them.
const (
	MaxName          = 128     // bytes in a service's name, an instance's id, a zone, a port's name
	MaxAddress       = 255 + 6 // bytes in host:port
	MaxPorts         = 16      // named ports of one instance
	MaxMetadata      = 32      // pairs of one instance
	MaxMetadataKey   = 128     // bytes
	MaxMetadataValue = 1024    // bytes
)

// Key names an instance: the service and the id, which outlive every incarnation.
type Key struct {
	Service string `json:"service"` // lower case, see [CheckService]
	ID      string `json:"id"`
}

// String writes service/id.
func (k Key) String() string { return k.Service + "/" + k.ID }

// Compare orders by service, then by id.
func (k Key) Compare(other Key) int {
	if c := cmp.Compare(k.Service, other.Service); c != 0 {
		return c
	}
	return cmp.Compare(k.ID, other.ID)
}

// Departure names one leaving, or one holding, of one instance: what a caller lets go of.
type Departure struct {
	Key
	Incarnation Incarnation `json:"incarnation"`
	Hold        uint64      `json:"hold,omitempty"` // the count of the hold that it is let go for; 0: it leaves
}

// Record is what the registry keeps of one instance. One node writes under one (incarnation,
// attachment), so every record has one writer by construction, and records are ordered without
// clocks: see [Record.Compare].
type Record struct {
	Key
	Incarnation Incarnation       `json:"incarnation"`
	Attachment  uint64            `json:"attachment"` // the process' count of its attaches, from 1
	Version     uint64            `json:"version"`    // the node's count of its writes under this attachment, from 1
	Status      Status            `json:"status"`
	Address     string            `json:"address"`         // host:port of the main port
	Ports       map[string]uint16 `json:"ports,omitempty"` // further named ports on the same host
	Zone        string            `json:"zone,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

// Compare orders two records of one key by (incarnation number, nonce, attachment, version). A node
// that hears of two keeps the greater one; on a tie both are the same write.
func (r *Record) Compare(other *Record) int {
	if c := r.Incarnation.Compare(other.Incarnation); c != 0 {
		return c
	}
	if c := cmp.Compare(r.Attachment, other.Attachment); c != 0 {
		return c
	}
	return cmp.Compare(r.Version, other.Version)
}

// Equal tells whether both records say the same in every field.
func (r *Record) Equal(other *Record) bool {
	return r.Key == other.Key && r.Incarnation == other.Incarnation && r.Attachment == other.Attachment &&
		r.Version == other.Version && r.Status == other.Status && r.Address == other.Address &&
		r.Zone == other.Zone && maps.Equal(r.Ports, other.Ports) && maps.Equal(r.Metadata, other.Metadata)
}

// Departure names the leaving of this record's incarnation.
func (r *Record) Departure() Departure { return Departure{Key: r.Key, Incarnation: r.Incarnation} }

// Endpoint returns host:port of a named port; "" is the main port.
func (r *Record) Endpoint(port string) (string, bool) {
	if port == "" {
		return r.Address, true
	}
	number, ok := r.Ports[port]
	if !ok {
		return "", false
	}
	host, _, err := net.SplitHostPort(r.Address)
	if err != nil {
		return "", false
	}
	return net.JoinHostPort(host, strconv.Itoa(int(number))), true
}

// Check reports every field that breaks a bound, with its name and value, as one error; nil if none does.
// It doesn't look at Incarnation, Attachment, Version and Status, which aren't the registrant's to choose.
func (r *Record) Check() error {
	errs := []error{CheckService(r.Service), CheckID(r.ID), CheckAddress(r.Address)}
	if r.Zone != "" {
		errs = append(errs, checkToken("zone", r.Zone))
	}
	if len(r.Ports) > MaxPorts {
		errs = append(errs, fmt.Errorf("ports: %d named ports, at most %d are kept", len(r.Ports), MaxPorts))
	}
	for name, port := range r.Ports {
		errs = append(errs, checkToken("port name", name))
		if port == 0 {
			errs = append(errs, fmt.Errorf("ports: %q has number 0; a port is 1 to 65535", name))
		}
	}
	if len(r.Metadata) > MaxMetadata {
		errs = append(errs, fmt.Errorf("metadata: %d pairs, at most %d are kept", len(r.Metadata), MaxMetadata))
	}
	for key, value := range r.Metadata {
		if key == "" || len(key) > MaxMetadataKey || !utf8.ValidString(key) {
			errs = append(errs, fmt.Errorf("metadata: key %.40q must be 1 to %d bytes of UTF-8", key, MaxMetadataKey))
		}
		if len(value) > MaxMetadataValue || !utf8.ValidString(value) {
			errs = append(errs, fmt.Errorf("metadata: the value of %.40q must be at most %d bytes of UTF-8, it has %d", key, MaxMetadataValue, len(value)))
		}
	}
	return errors.Join(errs...)
}

// CheckService holds a service's name to its form: 1 to 128 bytes of lower-case letters, digits, dots,
// dashes and underscores, beginning and ending with a letter or digit. Names appear as hosts in URLs,
// where case doesn't count: fold it with [FoldService] first.
func CheckService(name string) error {
	if name == "" {
		return errors.New(`service: the name is empty; use something like "orders"`)
	}
	if len(name) > MaxName {
		return fmt.Errorf("service: %.40q… has %d bytes, at most %d are allowed", name, len(name), MaxName)
	}
	for i := range len(name) {
		c := name[i]
		alnum := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		edge := i == 0 || i == len(name)-1
		if !alnum && (edge || c != '.' && c != '-' && c != '_') {
			return fmt.Errorf("service: %.128q may hold a-z, 0-9, '.', '-' and '_' and must begin and end with a letter or digit", name)
		}
	}
	return nil
}

// FoldService returns the name as it is kept: in lower case.
func FoldService(name string) string { return strings.ToLower(name) }

// CheckID holds an instance's id to its form: 1 to 128 printable ASCII bytes without space, '/' and '@'.
// Ids are case-sensitive and never rewritten.
func CheckID(id string) error { return checkToken("id", id) }

// CheckAddress holds an address to host:port with a host and a port from 1 to 65535.
func CheckAddress(address string) error {
	if len(address) > MaxAddress {
		return fmt.Errorf("address: %.40q… has %d bytes, at most %d are allowed", address, len(address), MaxAddress)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address: %q must be host:port, as in 10.0.0.7:8080 or [fd00::7]:8080", address)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return fmt.Errorf("address: %q needs a port from 1 to 65535", address)
	}
	if host == "" {
		return fmt.Errorf("address: %q names no host; callers need one they can reach", address)
	}
	for i := range len(host) {
		if c := host[i]; c <= ' ' || c >= 0x7f || c == '/' || c == '@' || c == '?' || c == '#' {
			return fmt.Errorf("address: %q has a byte in its host that no host name has", address)
		}
	}
	return nil
}

func checkToken(field, text string) error {
	if text == "" || len(text) > MaxName {
		return fmt.Errorf("%s: %.40q must have 1 to %d bytes, it has %d", field, text, MaxName, len(text))
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || c == '/' || c == '@' {
			return fmt.Errorf("%s: %.128q may hold printable ASCII without space, '/' and '@'", field, text)
		}
	}
	return nil
}
