package fake

import "github.com/eiderhq/eider"

// Up is an instance that may be called.
func Up(service, id, address string) eider.Instance {
	var nonce uint64 = 1
	for _, c := range []byte(service + "/" + id) {
		nonce = nonce*31 + uint64(c)
	}
	return eider.Instance{Record: eider.Record{Key: eider.Key{Service: service, ID: id}, Incarnation: eider.Incarnation{Number: 1, Nonce: nonce},
		Attachment: 1, Version: 1, Status: eider.Up, Address: address}}
}

// Spare is one that is called only when an earlier try has left out all others, since it is suspect.
func Spare(service, id, address string) eider.Instance {
	in := Up(service, id, address)
	in.Suspicion = eider.BeatsMissed
	return in
}

// Hanging is the instance when it is suspect of hanging, so that only a trial goes there.
func Hanging(in eider.Instance) eider.Instance {
	in.Suspicion = eider.Wedged
	return in
}

// Draining is the instance once it leaves.
func Draining(in eider.Instance) eider.Instance {
	in.Status, in.Version = eider.Draining, in.Version+1
	return in
}

// Gone is the instance once it has left.
func Gone(in eider.Instance) eider.Instance {
	in.Status, in.Version = eider.Left, in.Version+2
	return in
}
