package bench

import "github.com/eiderhq/eider/bench/breakers"

// breakerTurns is how many turns of a breaker are counted for one round of a gate: a turn is less than a millisecond.
const breakerTurns = 5

func breakerGates() []Gate {
	var gates []Gate
	for _, p := range breakers.Promises() {
		gates = append(gates, Gate{p.Name, p.Most, func(s Size) (Result, error) {
			r, err := p.Measure(s.Rounds * breakerTurns)
			return Result{Eider: Figure{r.Eider, r.Unit}, Peer: Figure{r.Peer, r.Unit}, CPU: r.CPU, Note: r.Note}, err
		}})
	}
	return gates
}
