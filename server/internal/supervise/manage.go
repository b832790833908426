package supervise

import (
	"context"
	"strings"
)

// serves hears that one more service is ready. A service manager that started this process hears it once all have been: of
// the program's checks, not of the registry, which may be away for as long as it likes.
func (s *supervisor) serves() {
	if s.unready.Add(-1) == 0 {
		s.manager.Ready("serves " + s.names())
	}
}

// manage tells the service manager of the leave, and its watchdog that this process isn't stuck, until the end. Whether the
// program is, --live asks.
func (s *supervisor) manage(ctx context.Context) {
	ctx, over := context.WithCancel(ctx)
	defer over()
	defer context.AfterFunc(s.leave, over)()
	s.manager.Watch(ctx, s.moves)
	<-ctx.Done()
	if s.leave.Err() != nil {
		s.manager.Stopping("leaves, and serves " + s.names() + " until its callers have let go")
	}
}

// moves returns once nobody holds what the supervisor knows.
func (s *supervisor) moves(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return nil
}

func (s *supervisor) names() string {
	var names []string
	for _, service := range s.Services {
		names = append(names, service.Name)
	}
	return strings.Join(names, ", ")
}
