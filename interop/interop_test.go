package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eiderhq/eider"
	"github.com/eiderhq/eider/drain"
	"github.com/eiderhq/eider/eiderhttp"
	"github.com/eiderhq/eider/roster"
)

func TestNode(t *testing.T) {
	program{argv: []string{"node", "testdata/node/orders.js"}, exit: 4, rounds: 3}.test(t)
}

func TestPython(t *testing.T) {
	t.Parallel()
	program{argv: []string{"python3", "testdata/python/orders.py"}, exit: 5, rounds: 3}.test(t)
}

// A virtual machine that a SIGTERM ends says so: 128 + 15.
func TestJava(t *testing.T) {
	t.Parallel()
	program{argv: []string{"java", "testdata/java/Orders.java"}, exit: 143, rounds: 1}.test(t)
}

// Maven fetches what the program needs, the first time.
func TestSpringBoot(t *testing.T) {
	t.Parallel()
	needs(t, "mvn")
	folder := t.TempDir() // Maven writes beside what it builds
	if err := os.CopyFS(folder, os.DirFS("testdata/spring")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("mvn", "-q", "-B", "package")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mvn package: %v\n%s", err, out)
	}
	program{argv: []string{"java", "-jar", filepath.Join(folder, "target", "orders.jar")}, exit: 143, rounds: 1}.test(t)
}

// program is what is run, and how it ends by itself once it is told to.
type program struct {
	argv   []string
	exit   int
	rounds int // of restarts: of both instances
}

func needs(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Fatalf("%v: `make interop` installs what these tests need", err)
	}
}

// test restarts both of two instances under POST load, again and again; the first one while a caller has it in hand.
func (p program) test(t *testing.T) {
	t.Helper()
	needs(t, p.argv[0])
	w := newWorld(t)
	running := map[string]*instance{}
	for _, id := range []string{"a", "b"} {
		running[id] = w.run(id, p.argv...)
	}
	ld := w.load(4)
	leave := w.keepsUntilTheBarrier
	for range p.rounds {
		for _, id := range []string{"a", "b"} {
			ld.each(20)
			leave(running[id], p)
			running[id] = w.run(id, p.argv...)
			leave = w.leaves
		}
	}
	ld.each(20)
	ld.stop()
}

// leaves has an instance end, and looks how it does.
func (w *world) leaves(in *instance, p program) {
	w.t.Helper()
	if err := in.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		w.t.Fatal(err)
	}
	in.ends(p)
}

// ends waits for its end: by the barrier, the program told, with its own code.
func (in *instance) ends(p program) {
	in.t.Helper()
	if code := in.exit(); code != p.exit {
		in.t.Errorf("%s ended with %d, want the program's own %d", in.name, code, p.exit)
	}
	if _, told, _ := in.said(toldToEnd); !told {
		in.t.Errorf("%s was never told to end", in.name)
	}
	var report struct{ Services []drain.Report }
	text, err := os.ReadFile(in.report)
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil || len(report.Services) != 1 || report.Services[0].EndedBy != drain.ByBarrier || !report.Services[0].Left {
		in.t.Fatalf("%s: the report is %s, %v; want the barrier to have ended its pause", in.name, text, err)
	}
	in.t.Logf("%s: pause %v", in.name, report.Services[0].Pause.Round(10*time.Microsecond))
}

func toldToEnd(line string) bool { return line == "told to end" } // the program's own word

// keepsUntilTheBarrier has an instance leave while somebody has picked it: its program isn't told before he lets go.
func (w *world) keepsUntilTheBarrier(in *instance, p program) {
	w.t.Helper()
	picker := roster.Follow(w.reg, service)
	defer picker.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var done func(error)
	for done == nil {
		picked, settle, err := picker.Pick(ctx)
		if err != nil {
			w.t.Fatal(err)
		}
		if picked.ID == in.id {
			done = func(err error) { settle(&err) }
			break
		}
		settle(&err)
	}
	if err := in.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		w.t.Fatal(err)
	}
	w.awaitView(in.id+" leaves", func(v *eider.View) bool {
		is, ok := v.Find(in.id)
		return ok && is.Status == eider.Draining
	})
	<-time.After(500 * time.Millisecond) // far longer than a barrier that nobody holds up
	if _, told, _ := in.said(toldToEnd); told {
		w.t.Errorf("%s was told to end while a caller still had it in hand", in.name)
	}
	done(nil)
	in.ends(p)
}

// load is closed loops of POSTs by Eider's callers.
type load struct {
	t    *testing.T
	end  context.CancelFunc
	wg   sync.WaitGroup
	mu   sync.Mutex
	done int
	bad  []error
	news chan struct{}
	size int
}

func (w *world) load(callers int) *load {
	ctx, end := context.WithCancel(context.Background())
	ld := &load{t: w.t, end: end, news: make(chan struct{}), size: callers}
	transport := &eiderhttp.Transport{Registry: w.reg}
	hc := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	for range callers {
		ld.wg.Go(func() {
			for ctx.Err() == nil {
				ld.note(post(hc))
				<-time.After(5 * time.Millisecond)
			}
		})
	}
	w.t.Cleanup(func() {
		end()
		ld.wg.Wait()
		transport.Close()
	})
	return ld
}

func post(hc *http.Client) error {
	resp, err := hc.Post("http://"+service+"/pay", "application/json", strings.NewReader(`{"amount":1299}`))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || string(text) != "paid\n") {
		err = fmt.Errorf("status %d, %q", resp.StatusCode, text)
	}
	return err
}

func (ld *load) note(err error) {
	ld.mu.Lock()
	defer ld.mu.Unlock()
	if ld.done++; err != nil {
		ld.bad = append(ld.bad, err)
	}
	close(ld.news)
	ld.news = make(chan struct{})
}

// each waits until every caller, on average, has made so many calls more.
func (ld *load) each(calls int) {
	ld.t.Helper()
	late := time.After(patience)
	ld.mu.Lock()
	want := ld.done + calls*ld.size
	for ld.done < want {
		news := ld.news
		ld.mu.Unlock()
		select {
		case <-news:
		case <-late:
			ld.t.Fatalf("%d calls more aren't made within %v", calls*ld.size, patience)
		}
		ld.mu.Lock()
	}
	ld.mu.Unlock()
}

// stop ends the load: nothing of it may have failed.
func (ld *load) stop() {
	ld.t.Helper()
	ld.end()
	ld.wg.Wait()
	if len(ld.bad) > 0 {
		ld.t.Errorf("%d of %d calls failed, the first: %v", len(ld.bad), ld.done, ld.bad[0])
	}
	ld.t.Logf("%d calls", ld.done)
}
