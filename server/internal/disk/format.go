package disk

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"
)

// The format, all numbers little-endian.
//
//	header  magic[8] version[4] role[4] count[8] stamp[8] crc[4]
//	frame   length[4] crc[4] payload[length]
//	payload kind[1], then: put     keylen[2] key value
//	                       delete  keylen[2] key
//	                       time    unix nanoseconds[8]
//	                       end     number of pairs[8]: the last frame of a snapshot
//	                       closed  nothing: the last frame of a log whose run ended in order, but for the time
//	                       opened  nothing: another run has begun, and the log isn't closed any more
//
// A frame's checksum begins with the generation's stamp and the length, so that a frame of an earlier file in
// recycled blocks is none of this one. Magic and version are where they are for ever.

const (
	magic      = "eiderMEM"
	version    = 1
	headerSize = 36
	frameHead  = 8
	maxPayload = 1 << 20
	maxKey     = 1<<16 - 1
)

const (
	roleSnapshot = 1
	roleLog      = 2
)

const (
	framePut    = 'p'
	frameDelete = 'd'
	frameTime   = 't'
	frameEnd    = 'e'
	frameClosed = 'c'
	frameOpened = 'o'
)

// generation is a snapshot and its log.
type generation struct{ count, stamp uint64 }

// What a file can be, if it isn't right.
var (
	errDamaged = errors.New("is damaged")
	errOld     = errors.New("is of an older version")
	errNew     = errors.New("is of a newer version")
)

// castagnoli returns the package's own table, which is made once.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func appendHeader(b []byte, role uint32, g generation) []byte {
	from := len(b)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint32(b, role)
	b = binary.LittleEndian.AppendUint64(b, g.count)
	b = binary.LittleEndian.AppendUint64(b, g.stamp)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[from:], castagnoli()))
}

func readHeader(data []byte, role uint32) (generation, error) {
	if len(data) < len(magic)+4 || string(data[:len(magic)]) != magic {
		return generation{}, errDamaged
	}
	switch v := binary.LittleEndian.Uint32(data[8:]); {
	case v < version:
		return generation{}, errOld
	case v > version:
		return generation{}, errNew
	case len(data) < headerSize, binary.LittleEndian.Uint32(data[32:]) != crc32.Checksum(data[:32], castagnoli()),
		binary.LittleEndian.Uint32(data[12:]) != role:
		return generation{}, errDamaged
	}
	return generation{binary.LittleEndian.Uint64(data[16:]), binary.LittleEndian.Uint64(data[24:])}, nil
}

func frameSize(key, value string) int64 { return int64(frameHead + 3 + len(key) + len(value)) }

func appendFrame(b []byte, g generation, kind byte, key, value string) []byte {
	from := len(b)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, kind)
	if kind == framePut || kind == frameDelete {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(key)))
		b = append(b, key...)
	}
	b = append(b, value...)
	frame := b[from:]
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-frameHead))
	binary.LittleEndian.PutUint32(frame[4:], checksum(g, frame))
	return b
}

func appendTime(b []byte, g generation, at time.Time) []byte {
	return appendFrame(b, g, frameTime, "", string(binary.LittleEndian.AppendUint64(nil, uint64(at.UnixNano()))))
}

func appendEnd(b []byte, g generation, pairs int) []byte {
	return appendFrame(b, g, frameEnd, "", string(binary.LittleEndian.AppendUint64(nil, uint64(pairs))))
}

func checksum(g generation, frame []byte) uint32 {
	var head [12]byte
	binary.LittleEndian.PutUint64(head[:], g.stamp)
	copy(head[8:], frame[:4])
	return crc32.Update(crc32.Checksum(head[:], castagnoli()), castagnoli(), frame[frameHead:])
}

// frame is one that was read.
type frame struct {
	kind   byte
	key    string
	value  []byte // part of the file's bytes
	number uint64 // of time and end
}

// readFrame reads the frame at the beginning of data, and tells its size; 0 if there is no right one.
func readFrame(data []byte, g generation) (frame, int) {
	if len(data) <= frameHead {
		return frame{}, 0
	}
	length := binary.LittleEndian.Uint32(data)
	if length == 0 || length > maxPayload || int(length) > len(data)-frameHead {
		return frame{}, 0
	}
	size := frameHead + int(length)
	if binary.LittleEndian.Uint32(data[4:]) != checksum(g, data[:size]) {
		return frame{}, 0
	}
	f, ok := readPayload(data[frameHead:size])
	if !ok {
		return frame{}, 0
	}
	return f, size
}

func readPayload(p []byte) (f frame, ok bool) {
	f.kind, p = p[0], p[1:]
	switch f.kind {
	case framePut, frameDelete:
		if len(p) < 2 {
			return f, false
		}
		n := int(binary.LittleEndian.Uint16(p))
		if p = p[2:]; n > len(p) || f.kind == frameDelete && n != len(p) {
			return f, false
		}
		f.key, f.value = string(p[:n]), p[n:]
	case frameTime, frameEnd:
		if len(p) != 8 {
			return f, false
		}
		f.number = binary.LittleEndian.Uint64(p)
	case frameClosed, frameOpened:
		return f, len(p) == 0
	default:
		return f, false
	}
	return f, true
}

// state is what frames add up to.
type state struct {
	pairs   map[string]string
	written time.Time
	closed  bool
}

// take adds a frame.
func (s *state) take(f frame) {
	s.closed = f.kind == frameClosed || s.closed && f.kind == frameTime
	switch f.kind {
	case framePut:
		s.pairs[f.key] = string(f.value)
	case frameDelete:
		delete(s.pairs, f.key)
	case frameTime:
		s.written = time.Unix(0, int64(f.number))
	}
}

// readSnapshot reads a whole snapshot: a part of one is none.
func readSnapshot(data []byte) (state, generation, error) {
	s := state{pairs: map[string]string{}}
	g, err := readHeader(data, roleSnapshot)
	if err != nil {
		return s, g, err
	}
	for data = data[headerSize:]; ; {
		f, size := readFrame(data, g)
		switch {
		case size == 0 || f.kind != framePut && f.kind != frameTime && f.kind != frameEnd:
			return s, g, errDamaged
		case f.kind == frameEnd:
			if size != len(data) || f.number != uint64(len(s.pairs)) {
				return s, g, errDamaged
			}
			return s, g, nil
		}
		s.take(f)
		data = data[size:]
	}
}

// readLog adds a log to the state of its snapshot, as far as it is right, and tells how many bytes at its end
// aren't. It is damaged if a right frame comes after a wrong one: else its tail was torn off while it was written.
func (s *state) readLog(data []byte, g generation) (torn int, err error) {
	for data = data[headerSize:]; len(data) > 0; {
		f, size := readFrame(data, g)
		if size == 0 || f.kind == frameEnd {
			s.closed = false
			if frameWithin(data[1:], g) {
				return len(data), errDamaged
			}
			return len(data), nil
		}
		s.take(f)
		data = data[size:]
	}
	return 0, nil
}

// frameWithin looks for a right frame anywhere. Its work is bounded: what takes longer isn't a torn tail.
func frameWithin(data []byte, g generation) bool {
	work := 64<<20 + 16*len(data)
	for ; len(data) > frameHead; data = data[1:] {
		length := binary.LittleEndian.Uint32(data)
		if length == 0 || length > maxPayload || int(length) > len(data)-frameHead {
			continue
		}
		if work -= int(length); work < 0 {
			return true
		}
		if _, size := readFrame(data, g); size > 0 {
			return true
		}
	}
	return false
}
