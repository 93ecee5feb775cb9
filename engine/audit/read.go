package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// batch is what one checkpoint line closes.
type batch struct {
	recs       [][]byte // valid until the next batch is read
	line       []byte   // the checkpoint line
	start, end int64    // where it lies in its segment, bytes
}

// segmentReader reads one segment in batches. It knows the form of lines and
// the bounds of a batch, and believes nothing.
type segmentReader struct {
	name  string
	r     *bufio.Reader
	off   int64  // bytes read
	buf   []byte // the lines of the batch being read, without breaks
	ends  []int  // of the records in buf
	start int64  // where the batch being read starts
}

func newSegmentReader(name string, r io.Reader) *segmentReader {
	return &segmentReader{name: name, r: bufio.NewReaderSize(r, 64<<10)}
}

// errTorn says that the segment ends in what a write that was never finished
// can leave: a proper prefix of one batch.
var errTorn = errors.New("audit: segment ends within a batch")

// next returns the next batch, whose first record should have index first. At
// the end it returns io.EOF or errTorn; anything else is a [*TamperError] or an
// error of the reader.
func (s *segmentReader) next(first int64) (batch, error) {
	s.buf, s.ends, s.start = s.buf[:0], s.ends[:0], s.off
	for {
		from := len(s.buf)
		whole, err := s.line()
		line := s.buf[from:]
		at := first + int64(len(s.ends)) // the record this line should be
		switch {
		case errors.Is(err, errLineTooLong):
			return batch{}, s.tampered(at, "line is longer than any record")
		case err != nil:
			return batch{}, err
		case !whole && s.off == s.start:
			return batch{}, io.EOF
		case !whole:
			return batch{}, s.torn(first, line)
		case bytes.HasPrefix(line, checkpointStart):
			return s.batch(line), nil
		case len(s.ends) == maxBatch, from >= maxBatchBytes:
			return batch{}, s.tampered(at, "more records than one write holds, without a checkpoint")
		}
		s.ends = append(s.ends, len(s.buf))
	}
}

func (s *segmentReader) batch(line []byte) batch {
	b := batch{line: line, start: s.start, end: s.off}
	from := 0
	for _, end := range s.ends {
		b.recs = append(b.recs, s.buf[from:end:end])
		from = end
	}
	return b
}

// torn tells an unfinished write from a finished one that was damaged. Of a
// batch that was acknowledged, every byte is there, so only whole records and
// then the beginning of a line may stand at the end of the log.
func (s *segmentReader) torn(first int64, rest []byte) error {
	for i, rec := range s.batch(nil).recs {
		if err := checkRecord(rec); err != nil {
			return &TamperError{Record: first, Last: first + int64(i), Segment: s.name,
				Reason: "line after the last checkpoint is neither a record nor a checkpoint"}
		}
	}
	// A record that is cut short could not be told from one with its last bytes
	// damaged; but what a checkpoint line ends with is known.
	if i := bytes.Index(rest, []byte(`"}`)); bytes.HasPrefix(rest, checkpointStart) && i >= 0 && i+2 < len(rest) {
		return &TamperError{Record: first, Last: max(first, first+int64(len(s.ends))-1), Segment: s.name,
			Reason: "checkpoint line goes on after its end"}
	}
	return errTorn
}

func (s *segmentReader) tampered(record int64, reason string) error {
	return &TamperError{Record: record, Last: record, Segment: s.name, Reason: reason}
}

var errLineTooLong = errors.New("audit: line too long")

// line appends the next line to buf without its break. It is not whole when the
// segment ends first, perhaps with nothing.
func (s *segmentReader) line() (whole bool, err error) {
	from := len(s.buf)
	for {
		part, err := s.r.ReadSlice('\n')
		s.off += int64(len(part))
		s.buf = append(s.buf, part...)
		whole := err == nil
		if whole {
			s.buf = s.buf[:len(s.buf)-1]
		}
		switch {
		case len(s.buf)-from > MaxRecordBytes:
			return false, errLineTooLong
		case whole:
			return true, nil
		case errors.Is(err, io.EOF):
			return false, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return false, fmt.Errorf("audit: reading %s: %w", s.name, err)
		}
	}
}
