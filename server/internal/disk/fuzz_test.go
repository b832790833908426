package disk

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzRead reads any bytes as both files.
func FuzzRead(f *testing.F) {
	dir := f.TempDir()
	history(f, dir)
	snapshot, err := os.ReadFile(filepath.Join(dir, snapshotName))
	if err != nil {
		f.Fatal(err)
	}
	log, err := os.ReadFile(filepath.Join(dir, logName))
	if err != nil {
		f.Fatal(err)
	}
	g, err := readHeader(log, roleLog)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(snapshot, log)
	f.Add(snapshot[:len(snapshot)-1], log[:len(log)-1])
	f.Add([]byte{}, []byte(magic))
	f.Add(appendEnd(appendFrame(appendHeader(nil, roleSnapshot, g), g, framePut, "a", ""), g, 1), appendFrame(appendHeader(nil, roleLog, g), g, frameDelete, "a", ""))
	f.Fuzz(func(t *testing.T, snapshot, log []byte) {
		st, g, err := readSnapshot(snapshot)
		if err != nil {
			return
		}
		if own, err := readHeader(log, roleLog); err != nil || own != g {
			return
		}
		if torn, err := st.readLog(log, g); torn < 0 || torn > len(log)-headerSize || err != nil && torn == 0 {
			t.Errorf("torn %d of %d, %v", torn, len(log), err)
		}
	})
}
