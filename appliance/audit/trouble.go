package audit

import "time"

// Writing is tried again ten times a second, and what is wrong may stay so for
// days: the same failure goes to the log at once, and then ever more seldom.
const (
	troublePause    = time.Second
	troublePauseMax = 10 * time.Minute
)

// trouble decides which failures to write are reported.
type trouble struct {
	text   string // of the last one; "" if writing works
	next   time.Time
	pause  time.Duration
	unsaid uint64 // not reported since
}

// report says whether to report a failure now, and how many equal ones were not.
func (t *trouble) report(err error, now time.Time) (unsaid uint64, say bool) {
	if text := err.Error(); text != t.text {
		*t = trouble{text: text, pause: troublePause}
	} else if now.Before(t.next) && t.next.Sub(now) <= t.pause { // or the clock was set back
		t.unsaid++
		return 0, false
	} else {
		t.pause = min(2*t.pause, troublePauseMax)
	}
	unsaid, t.unsaid, t.next = t.unsaid, 0, now.Add(t.pause)
	return unsaid, true
}

// over reports whether this is the first success after failures.
func (t *trouble) over() bool {
	failed := t.text != ""
	*t = trouble{}
	return failed
}
