package eidergrpc

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/resolver"

	"github.com/eiderhq/eider"
)

const scheme = "eider"

// goal is what a target names: a service and one of its ports, "" being the main one.
type goal struct{ service, port string }

func parseTarget(t resolver.Target) (goal, error) {
	if t.URL.Host != "" {
		return goal{}, fmt.Errorf("target %q: nothing stands between the second and the third slash, the registry is the handle's; write eider:///orders", t.URL.String())
	}
	name := eider.FoldService(strings.Trim(t.Endpoint(), "/"))
	var to goal
	if label, rest, ok := strings.Cut(name, "."); ok && len(label) > 1 && label[0] == '_' {
		to.port, name = label[1:], rest
	}
	to.service = name
	if err := eider.CheckService(name); err != nil {
		return goal{}, fmt.Errorf("target %q: %w", t.URL.String(), err)
	}
	return to, nil
}

// resolverBuilder resolves eider:///orders to no addresses, only to what the balancer has to follow: instances come
// and go there, in the roster, and an address list that gRPC compares and merges would be a second truth.
type resolverBuilder struct{ cl *client }

func (b *resolverBuilder) Scheme() string { return scheme }

// OverrideAuthority names the service to TLS and to HTTP/2, whatever its port.
func (b *resolverBuilder) OverrideAuthority(t resolver.Target) string {
	to, err := parseTarget(t)
	if err != nil {
		return t.Endpoint()
	}
	return to.service
}

// followed is the one attribute of a resolver's state: who follows what.
type followed struct {
	cl *client
	to goal
}

type followedKey struct{}

func (b *resolverBuilder) Build(t resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	to, err := parseTarget(t)
	if err != nil {
		return nil, err
	}
	state := resolver.State{}
	state.Attributes = state.Attributes.WithValue(followedKey{}, &followed{b.cl, to})
	if err := cc.UpdateState(state); err != nil {
		return nil, errors.Join(errors.New("the policy "+policy+" isn't in force"), err)
	}
	return resolved{}, nil
}

// resolved has nothing to do: news come to the roster by themselves.
type resolved struct{}

func (resolved) ResolveNow(resolver.ResolveNowOptions) {}
func (resolved) Close()                                {}
