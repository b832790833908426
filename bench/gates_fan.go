package bench

import (
	"context"
	"strconv"
	"time"
)

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

func fanOut(s Size) (Result, error) {
	e, r, err := fleets(s.Callers)
	if err != nil {
		return Result{}, err
	}
	defer e.Close()
	defer r.Close()
	return compare(s.Rounds, contender{timed(e.Change), e.cpus}, contender{timed(r.Change), r.cpus})
}

func acknowledged(s Size) (Result, error) {
	e, r, err := fleets(s.Callers)
	if err != nil {
		return Result{}, err
	}
	defer e.Close()
	defer r.Close()
	return compare(s.Rounds, contender{timed(e.Acknowledged), e.cpus}, contender{timed(r.Change), r.cpus})
}

func besideEtcd(s Size) (Result, error) {
	e, err := openEider(s.Callers)
	if err != nil {
		return Result{}, err
	}
	defer e.Close()
	d, err := openEtcd(s.Callers)
	if err != nil {
		return Result{}, err
	}
	defer d.Close()
	return compare(s.Rounds, contender{timed(e.Change), e.cpus}, contender{timed(d.Change), d.cpus})
}

func barrier(s Size) (Result, error) {
	e, err := openEider(s.Callers)
	if err != nil {
		return Result{}, err
	}
	defer e.Close()
	n := 0
	leave := func() (time.Duration, error) {
		n++
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return e.Barrier(ctx, "leaving"+strconv.Itoa(n))
	}
	return compare(s.Rounds, contender{do: leave}, contender{do: timed(e.Change)})
}

// memory compares what a server's resident memory grows by, a caller. Nothing is said to either while it settles.
func memory(s Size) (Result, error) {
	e0, r0, err := grown(1)
	if err != nil {
		return Result{}, err
	}
	e1, r1, err := grown(s.Callers)
	if err != nil {
		return Result{}, err
	}
	per := func(many, one int64) Figure { return Figure{float64(many-one) / float64(max(1, s.Callers-1)), "bytes"} }
	return Result{Eider: per(e1, e0), Peer: per(r1, r0)}, nil
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
