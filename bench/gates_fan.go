package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/eiderhq/eider"
)

// Gates are all of them.
func Gates(callers, rounds int) []Gate {
	return []Gate{
		{fmt.Sprintf("fan-out: a change until the last of %d applied / raw gRPC", callers), 1.2, func() (Ratio, error) { return fanOut(callers, rounds) }},
		{fmt.Sprintf("fan-out: the same / etcd until the last of %d watchers", callers), 1, func() (Ratio, error) { return besideEtcd(callers, rounds) }},
		{fmt.Sprintf("fan-out: the same with every acknowledgement / raw gRPC without"), 1.7, func() (Ratio, error) { return acknowledged(callers, rounds) }},
		{fmt.Sprintf("barrier: leave until %d idle callers have let go / fan-out", callers), 2, func() (Ratio, error) { return barrier(callers, rounds) }},
		{"memory: the server's an idle caller / raw gRPC's", 1.2, func() (Ratio, error) { return memory(callers) }},
	}
}

// fleets opens both sides.
func fleets(callers int) (*eiderFan, *rawFan, error) {
	e, err := openEider(callers)
	if err != nil {
		return nil, nil, err
	}
	r, err := openRaw(callers)
	if err != nil {
		e.Close()
		return nil, nil, err
	}
	return e, r, nil
}

func fanOut(callers, rounds int) (Ratio, error) {
	e, r, err := fleets(callers)
	if err != nil {
		return Ratio{}, err
	}
	defer e.Close()
	defer r.Close()
	return turns(rounds, timed(e.Change), timed(r.Change))
}

func besideEtcd(callers, rounds int) (Ratio, error) {
	e, err := openEider(callers)
	if err != nil {
		return Ratio{}, err
	}
	defer e.Close()
	d, err := openEtcd(callers)
	if err != nil {
		return Ratio{}, err
	}
	defer d.Close()
	return turns(rounds, timed(e.Change), timed(d.Change))
}

func acknowledged(callers, rounds int) (Ratio, error) {
	e, r, err := fleets(callers)
	if err != nil {
		return Ratio{}, err
	}
	defer e.Close()
	defer r.Close()
	return turns(rounds, timed(func() error {
		if err := e.Change(); err != nil {
			return err
		}
		return e.allAcknowledged()
	}), timed(r.Change))
}

// allAcknowledged waits until the node has every caller at the newest view. It asks the node's own list,
// which costs the node time that is counted here.
func (f *eiderFan) allAcknowledged() error {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		resp, err := http.Get("http://" + f.node.http + "/v1/services")
		if err != nil {
			return err
		}
		var list struct {
			Services []eider.Summary `json:"services"`
		}
		err = json.NewDecoder(resp.Body).Decode(&list)
		resp.Body.Close()
		if err != nil {
			return err
		}
		for _, s := range list.Services {
			if s.Service == "orders" && s.Behind == 0 {
				return nil
			}
		}
	}
	return fmt.Errorf("not every caller has acknowledged after 10 s")
}

func barrier(callers, rounds int) (Ratio, error) {
	e, err := openEider(callers)
	if err != nil {
		return Ratio{}, err
	}
	defer e.Close()
	n := 0
	return turns(rounds, func() (time.Duration, error) {
		n++
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		return e.Barrier(ctx, n)
	}, timed(e.Change))
}

// memory compares what a server's resident memory grows by, a caller.
func memory(callers int) (Ratio, error) {
	e0, r0, err := grown(1)
	if err != nil {
		return Ratio{}, err
	}
	e1, r1, err := grown(callers)
	if err != nil {
		return Ratio{}, err
	}
	per := func(many, one int64) Figure { return Figure{float64(many-one) / float64(callers-1), "bytes"} }
	return Ratio{per(e1, e0), per(r1, r0)}, nil
}

func grown(callers int) (eider, raw int64, err error) {
	e, r, err := fleets(callers)
	if err != nil {
		return 0, 0, err
	}
	defer e.Close()
	defer r.Close()
	for range 3 {
		if err := e.Change(); err != nil {
			return 0, 0, err
		}
		if err := r.Change(); err != nil {
			return 0, 0, err
		}
	}
	<-time.After(3 * time.Second)
	if eider, err = e.Resident(); err != nil {
		return 0, 0, err
	}
	raw, err = r.Resident()
	return eider, raw, err
}
