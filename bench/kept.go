package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/eiderhq/eider/api/eider/v1"
)

// registered is how many instances come in a round: a thousand of processes with one each would measure
// connections.
const registered = 2000

// registrar is a node and one stream on which instances are registered.
type registrar struct {
	node   *node
	data   string
	conn   *grpc.ClientConn
	stream grpc.BidiStreamingClient[pb.AttachRequest, pb.AttachReply]
	count  int
}

// openRegistrar starts a node that keeps what it learns on disk, or doesn't.
func openRegistrar(kept bool) (r *registrar, err error) {
	r = new(registrar)
	flags := []string{"--fresh", "--register-rate", "10000000", "--max-stream-instances", "10000000"}
	if kept {
		if r.data, err = os.MkdirTemp("", "eider-bench"); err != nil {
			return nil, err
		}
		flags = append(flags, "--data", r.data)
	}
	if r.node, err = startNode(flags...); err == nil {
		r.conn, err = grpc.NewClient(r.node.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	if err == nil {
		r.stream, err = pb.NewRegistryClient(r.conn).Attach(context.Background())
	}
	if err == nil {
		err = r.stream.Send(&pb.AttachRequest{Kind: &pb.AttachRequest_Hello{Hello: &pb.Hello{Caller: "bench@1"}}})
	}
	if err == nil {
		_, err = r.stream.Recv()
	}
	if err != nil {
		r.Close()
	}
	return r, err
}

// Close ends all that was started.
func (r *registrar) Close() {
	if r.conn != nil {
		r.conn.Close()
	}
	if r.node != nil {
		r.node.stop()
	}
	if r.data != "" {
		os.RemoveAll(r.data)
	}
}

// Register registers new instances one after the other without waiting for answers in between, has each renewed once,
// and returns what the node's processor was busy, with all that this leaves behind, for one.
func (r *registrar) Register() (time.Duration, error) {
	before, err := cpu(r.node.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	sent := make(chan error, 1)
	go func() { sent <- r.send() }()
	for n := 0; n < registered; {
		reply, err := r.stream.Recv()
		if err != nil {
			return 0, errors.Join(err, <-sent)
		}
		if reply.GetRefused() != nil {
			return 0, errors.Join(fmt.Errorf("refused: %v", reply), <-sent)
		}
		if reply.GetRegistered() != nil {
			n++
		}
	}
	if err := <-sent; err != nil {
		return 0, err
	}
	<-time.After(rest)
	after, err := cpu(r.node.cmd.Process.Pid)
	return (after - before) / registered, err
}

func (r *registrar) send() error {
	for range registered {
		r.count++
		id := strconv.Itoa(r.count)
		err := r.stream.Send(&pb.AttachRequest{Kind: &pb.AttachRequest_Register{Register: &pb.Register{Record: &pb.Record{
			Service: "s" + strconv.Itoa(r.count/50), Id: id, Incarnation: &pb.Incarnation{Nonce: uint64(r.count)}, Attachment: 1,
			Status: pb.Status_STATUS_UP, Address: "127.0.0.1:" + strconv.Itoa(1+r.count%65000), Zone: "a",
			Metadata: map[string]string{"version": "v1.2.3", "commit": "7d9f8a0c", "pod": "orders-7d9f8-" + id}}}}})
		if err != nil {
			return err
		}
	}
	return nil
}

// registrations compares what a registration costs a node that keeps it with what it costs one that doesn't, in turns.
func registrations(s Size) (Result, error) {
	kept, err := openRegistrar(true)
	if err != nil {
		return Result{}, err
	}
	defer kept.Close()
	plain, err := openRegistrar(false)
	if err != nil {
		return Result{}, err
	}
	defer plain.Close()
	var times [2][]time.Duration
	for round := range warmUp + s.Rounds {
		for i, r := range []*registrar{kept, plain} {
			took, err := r.Register()
			if err != nil {
				return Result{}, err
			}
			if round >= warmUp {
				times[i] = append(times[i], took)
			}
		}
	}
	note := fmt.Sprintf("medians %s and %s", median(times[0]), median(times[1]))
	return Result{Eider: nanoseconds(slices.Min(times[0])), Peer: nanoseconds(slices.Min(times[1])), Note: note}, nil
}
