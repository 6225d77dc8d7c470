package breached

import (
	"encoding/binary"
	"hash/crc32"
	"io"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// blockWriter writes a section, which must be appended to in pieces of at most
// blockSlack bytes, and takes the checksums of its blocks. Several write
// different places of one file.
type blockWriter struct {
	to        io.WriterAt
	at        int64
	buf       []byte
	checksums []byte
	err       error // the first; nothing is written after it
}

const blockSlack = 32

func newBlockWriter(to io.WriterAt, at uint64) *blockWriter {
	return &blockWriter{to: to, at: int64(at), buf: make([]byte, 0, blockSize+blockSlack)}
}

// full is called after each append to buf.
func (w *blockWriter) full() {
	if len(w.buf) >= blockSize {
		w.write(w.buf[:blockSize])
		w.buf = append(w.buf[:0], w.buf[blockSize:]...)
	}
}

// finish writes the last block.
func (w *blockWriter) finish() error {
	if len(w.buf) > 0 {
		w.write(w.buf)
		w.buf = w.buf[:0]
	}
	return w.err
}

func (w *blockWriter) write(block []byte) {
	w.checksums = binary.BigEndian.AppendUint32(w.checksums, crc32.Checksum(block, castagnoli))
	if w.err == nil {
		_, w.err = w.to.WriteAt(block, w.at)
	}
	w.at += int64(len(block))
}
