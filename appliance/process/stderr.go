package process

import (
	"bufio"
	"io"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
)

const (
	maxLine        = 4096 // octets of one line that reach the log
	linesPerSecond = 20
	lineBurst      = 200
)

// copyLines logs what the child writes to its standard error, a record a line,
// until it ends. It always reads on, so that the child never blocks: the rest of
// a long line is cut, and lines beyond the rate are counted instead of logged.
func copyLines(r io.Reader, log zerolog.Logger) {
	limit := rate.NewLimiter(linesPerSecond, lineBurst)
	b := bufio.NewReaderSize(r, maxLine)
	suppressed := 0
	report := func() {
		if suppressed > 0 {
			log.Warn().Int("lines", suppressed).Msg("standard error too fast; lines not logged")
			suppressed = 0
		}
	}
	defer report()
	for {
		line, more, err := b.ReadLine()
		text, cut := string(line), 0
		for more && err == nil {
			var rest []byte
			rest, more, err = b.ReadLine()
			cut += len(rest)
		}
		if text != "" {
			if limit.Allow() {
				report()
				e := log.Info().Str("stderr", text)
				if cut > 0 {
					e.Int("cut", cut)
				}
				e.Send()
			} else {
				suppressed++
			}
		}
		if err != nil {
			return
		}
	}
}
