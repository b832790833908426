// Package notify tells whoever started this process as a service (systemd, Type=notify) how it stands: ready, stopping,
// alive.
//
// Where nobody asks (NOTIFY_SOCKET isn't set), every call does nothing, so that nothing has to be switched on.
package notify

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Service is this process as the service manager sees it.
type Service struct {
	log    *slog.Logger
	send   func(state string) error
	within time.Duration // of the watchdog; 0 means that there is none

	mu     sync.Mutex
	broken bool // what was told last didn't arrive
}

// Open reads what the service manager asks of this process; it connects to nothing. A manager that can't be told is in the
// log, once, and nothing else: the service serves.
func Open(log *slog.Logger) *Service {
	s := &Service{log: log, send: func(state string) error {
		_, err := daemon.SdNotify(false, state)
		return err
	}}
	within, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("eider: WATCHDOG_USEC and WATCHDOG_PID can't be read, so that no watchdog is told anything", "err", err)
	}
	s.within = within
	return s
}

// Without returns an environment in which nobody is asked to tell the service manager: it listens to one process of a
// service, and what that one starts would be told to speak and not be heard.
func Without(environment []string) []string {
	return slices.DeleteFunc(slices.Clone(environment), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return name == "NOTIFY_SOCKET" || name == "WATCHDOG_USEC" || name == "WATCHDOG_PID"
	})
}

// Ready says that the service serves, and how: one line for `systemctl status`.
func (s *Service) Ready(status string) { s.tell(daemon.SdNotifyReady, status) }

// Stopping says that the service has begun to end, and what it still waits for. From now on the manager counts its
// TimeoutStopSec, also where the service ends by itself.
func (s *Service) Stopping(status string) { s.tell(daemon.SdNotifyStopping, status) }

// Watch says that the service is alive whenever alive says so, until ctx ends; at once if no watchdog asks. alive is asked
// three times within the watchdog's time and has a third of it to answer, so that one slow answer ends nothing. When it
// fails or hangs nothing is said: then it is the manager who ends the service, and starts it again.
func (s *Service) Watch(ctx context.Context, alive func(context.Context) error) {
	if s.within <= 0 {
		return
	}
	tick := time.NewTicker(s.within / 3)
	defer tick.Stop()
	well := true
	for {
		err := answer(ctx, s.within/3, alive)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			s.tell(daemon.SdNotifyWatchdog, "")
		case well:
			s.log.Error(fmt.Sprintf("eider: this process doesn't answer itself; unless it does within %s the service manager ends it", s.within), "err", err)
		}
		if err == nil && !well {
			s.log.Info("eider: this process answers itself again")
		}
		well = err == nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func answer(ctx context.Context, within time.Duration, alive func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return alive(ctx)
}

// tell sends one state; a status is one line, whatever is in it: what follows a line's end would be another variable.
func (s *Service) tell(state, status string) {
	if status != "" {
		state += "\nSTATUS=" + strings.Join(strings.Fields(status), " ")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.send(state)
	if err != nil && !s.broken {
		s.log.Warn("eider: the service manager can't be told how this service stands", "err", err)
	}
	s.broken = err != nil
}
