package roster

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/eiderhq/eider"
)

// aList is the text of a file, as it would be written now.
func aList(t testing.TB, change func(*saved)) []byte {
	t.Helper()
	s := &saved{Service: "orders", Heard: time.Now(), Lease: usualLease, View: &eider.View{Service: "orders", Instances: []eider.Instance{{Record: eider.Record{
		Key: eider.Key{Service: "orders", ID: "a"}, Incarnation: eider.Incarnation{Number: 2, Nonce: 7}, Attachment: 1, Version: 3, Status: eider.Up,
		Address: "10.0.0.7:80", Ports: map[string]uint16{"admin": 81}, Metadata: map[string]string{"v": "2"}}}}}}
	if change != nil {
		change(s)
	}
	text, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Whatever byte of a file is another, and wherever it ends, it is known to be damaged.
func TestADamagedListIsNeverUsed(t *testing.T) {
	text := aList(t, nil)
	if _, err := decode(text, "orders", time.Now()); err != nil {
		t.Fatal(err)
	}
	for i := range text {
		for _, bit := range []byte{1, 0x20, 0x80} {
			bad := []byte(string(text))
			bad[i] ^= bit
			if _, err := decode(bad, "orders", time.Now()); err == nil {
				t.Fatalf("byte %d of %q is another, and it was used", i, bad)
			}
		}
		if _, err := decode(text[:i], "orders", time.Now()); err == nil {
			t.Fatalf("it was cut to %d bytes, and used", i)
		}
	}
	if _, err := decode(append(text, '\n'), "orders", time.Now()); err == nil {
		t.Error("something stands behind it, and it was used")
	}
}

func TestAListThatIsNoneIsntUsed(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*saved)
		want   error
	}{
		"a day old":            {func(s *saved) { s.Heard = s.Heard.Add(-diskKeep - time.Second) }, errTooOld},
		"from the day after":   {func(s *saved) { s.Heard = s.Heard.Add(diskKeep + time.Minute) }, errTooOld},
		"of another service":   {func(s *saved) { s.Service = "stock" }, errDamaged},
		"of another's view":    {func(s *saved) { s.View.Service = "stock" }, errDamaged},
		"with another's":       {func(s *saved) { s.View.Instances[0].Service = "stock" }, errDamaged},
		"without a view":       {func(s *saved) { s.View = nil }, errDamaged},
		"nobody's address":     {func(s *saved) { s.View.Instances[0].Address = "80" }, errDamaged},
		"one that has ended":   {func(s *saved) { s.View.Instances[0].Status = eider.Left }, errDamaged},
		"with too much to say": {func(s *saved) { s.View.Instances[0].Metadata["v"] = strings.Repeat("v", 2000) }, errDamaged},
	} {
		if _, err := decode(aList(t, row.change), "orders", time.Now()); !errors.Is(err, row.want) {
			t.Errorf("%s: %v, want %v", name, err, row.want)
		}
	}
	text := strings.Replace(string(aList(t, nil)), "roster 1", "roster 2", 1)
	if _, err := decode([]byte(text), "orders", time.Now()); !errors.Is(err, errVersion) {
		t.Errorf("another version: %v", err)
	}
	most := &saved{Service: strings.Repeat("s", diskMost)}
	if _, err := most.encode(); err == nil {
		t.Error("a list without end is saved")
	}
}

func FuzzDecode(f *testing.F) {
	text := aList(f, nil)
	for _, seed := range []string{"", "\n", "eider roster 1 00 0\n", string(text), string(text[:40]), string(text[70:])} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := decode(text, "orders", time.Now())
		if err == nil && s.check("orders", time.Now()) != nil {
			t.Fatal("it was used unchecked")
		}
	})
}

// started tells whom a process picks that starts while the registry is away; the log is what it warned of.
func started(t *testing.T, dir folder) (picked string, log *logged) {
	t.Helper()
	onDiskOf(t, Config{}, dir, func(t *testing.T, w *world, said *logged) {
		log = said
		w.away()
		if u := w.View(); u.View != nil {
			picked = w.picked()
		}
	})
	return picked, log
}

func TestADamagedFileIsSetAside(t *testing.T) {
	dir := t.TempDir()
	saves(t, dir, "a UP")
	file := filepath.Join(dir, "orders.roster")
	text := mustRead(t, file)
	if err := os.WriteFile(file, text[:len(text)-9], 0o600); err != nil {
		t.Fatal(err)
	}
	picked, log := started(t, newFolder(dir))
	if picked != "" || log.count("level=WARN") != 1 || log.count("orders.roster.damaged") != 1 {
		t.Errorf("picked %q from a damaged list, and said %s", picked, &log.text)
	}
	if got := mustRead(t, file+".damaged"); len(got) != len(text)-9 {
		t.Errorf("what is set aside has %d bytes", len(got))
	}
	saves(t, dir, "b UP")
	if picked, _ := started(t, newFolder(dir)); picked != "b" {
		t.Errorf("after the next save: picked %q", picked)
	}
}

// TestAttackPlantsARoster: whoever else is on the machine would have this process' requests sent to himself.
func TestAttackPlantsARoster(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("access lists rule there")
	}
	for _, row := range []struct {
		name  string
		plant func(t *testing.T, dir, file string)
		as    int // another user than this one is trusted
		want  string
	}{
		{name: "nothing", plant: func(t *testing.T, dir, file string) {}},
		{name: "another's file and folder", plant: func(t *testing.T, dir, file string) {}, as: 1, want: "belongs to user"},
		{name: "a file that others may write", plant: func(t *testing.T, dir, file string) { chmod(t, file, 0o620) }, want: "writable for others"},
		{name: "a file that all may write", plant: func(t *testing.T, dir, file string) { chmod(t, file, 0o606) }, want: "writable for others"},
		{name: "a folder that others may write", plant: func(t *testing.T, dir, file string) { chmod(t, dir, 0o770) }, want: "writable for others"},
		{name: "a folder that all may write", plant: func(t *testing.T, dir, file string) { chmod(t, dir, 0o1777) }, want: "writable for others"},
		{name: "a link to somewhere else", want: "escapes", plant: func(t *testing.T, dir, file string) {
			there := filepath.Join(t.TempDir(), "planted")
			if err := errors.Join(os.Rename(file, there), os.Symlink(there, file)); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "a folder in its place", want: "no regular file", plant: func(t *testing.T, dir, file string) {
			if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700)); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "another service's list", want: "isn't a list of orders", plant: func(t *testing.T, dir, file string) {
			if err := os.WriteFile(file, aList(t, func(s *saved) { s.Service, s.View.Service = "evil", "evil" }), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "more than there is memory for", want: "at most", plant: func(t *testing.T, dir, file string) {
			if err := os.Truncate(file, diskMost+1); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "rosters")
			saves(t, dir, "a UP")
			row.plant(t, dir, filepath.Join(dir, "orders.roster"))
			picked, log := started(t, newFolder(dir).as(row.as))
			if row.want == "" {
				if picked != "a" {
					t.Errorf("picked %q, want a", picked)
				}
			} else if picked != "" || log.count("isn't used") != 1 || log.count(row.want) != 1 {
				t.Errorf("picked %q, and said %s, want %q", picked, &log.text, row.want)
			}
		})
	}
}

// as trusts somebody else, so that one's own files are a stranger's.
func (f folder) as(other int) folder {
	f.uid += other
	return f
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if mode&0o1000 != 0 {
		mode = mode&0o777 | os.ModeSticky
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// TestAttackSwapsTheFolder: in a folder that is writable for everybody, another one can be put in the place of ours.
func TestAttackSwapsTheFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("access lists rule there")
	}
	above := filepath.Join(t.TempDir(), "shared")
	dir := filepath.Join(above, "below", "rosters")
	saves(t, dir, "a UP")
	other := newFolder(dir).as(1) // whoever owns it may do as he likes; so the owner must be somebody else
	chmod(t, above, 0o777)
	if err := newFolder(dir).sheltered(); err != nil {
		t.Errorf("a folder that is shared and ours: %v", err)
	}
	if err := other.sheltered(); err == nil || !strings.Contains(err.Error(), above) {
		t.Errorf("a shared folder above isn't seen: %v", err)
	}
	chmod(t, above, 0o1777)
	if err := other.sheltered(); err != nil {
		t.Errorf("a sticky one, as /tmp: %v", err)
	}
	saves(t, dir, "a UP", "b UP")
	for _, name := range []string{dir, filepath.Join(dir, "orders.roster")} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %s (%v), want it for its owner alone", name, info.Mode(), err)
		}
	}
}
