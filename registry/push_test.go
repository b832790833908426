package registry

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/eiderhq/eider"
)

// Who is pushed to is told of views and of the stream's end; Next only of the end of the following.
func TestPushTellsAllThatNextWould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		s, c := followed(t, node, node.open(Config{}))
		var told []string
		s.Push(func(u Update) {
			told = append(told, fmt.Sprint(u.View.Cursor.Number, " ", u.Connected))
			s.Ack(u.View.Cursor, nil, nil) // mustn't wait for what the pusher holds
		})
		ended := make(chan error, 1)
		go func() {
			_, err := s.Next(t.Context())
			ended <- err
		}()
		first := s.feed.held.view.Cursor.Number
		c.say(viewOf(1, first+1, 0, "a", "b"))
		c.say(viewOf(1, first+2, 0, "a"))
		synctest.Wait()
		node.kill(errRefused)
		synctest.Wait()
		want := fmt.Sprint([]string{fmt.Sprint(first+1, " true"), fmt.Sprint(first+2, " true"), fmt.Sprint(first+2, " false")})
		if got := fmt.Sprint(told); got != want {
			t.Errorf("told %s, want %s", got, want)
		}
		s.Close()
		if err := <-ended; eider.KindOf(err) != eider.Closed {
			t.Errorf("Next = %v", err)
		}
	})
}

func TestCloseAwaitsWhoIsPushedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newFake(t)
		s, c := followed(t, node, node.open(Config{}))
		inside, leave := make(chan struct{}), make(chan struct{})
		s.Push(func(Update) {
			close(inside)
			<-leave
		})
		c.say(viewOf(1, s.feed.held.view.Cursor.Number+1, 0, "b"))
		<-inside
		closed := make(chan struct{})
		go func() {
			s.Close()
			close(closed)
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close didn't wait")
		default:
		}
		close(leave)
		<-closed
	})
}
