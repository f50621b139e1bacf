package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// writeUntilError is what the child of the fault tests does: change, until a
// change fails; then say what the store is still good for.
func writeUntilError(dir string) error {
	db, err := Open(options(dir))
	if err != nil {
		return err
	}
	ctx := context.Background()
	n := 0
	for ; err == nil && n < 10_000; n++ {
		err = db.CreateToken(ctx, testToken(fmt.Sprint("t", n)))
	}
	n-- // the last one failed
	kind := func(err error) string {
		var e *Error
		switch {
		case err == nil:
			return "ok"
		case errors.As(err, &e):
			return e.Kind.Error()
		}
		return err.Error()
	}
	fmt.Println("acknowledged", n)
	fmt.Println("change", kind(err))
	// Calls are counted for each thread, so another thread may be told the same once.
	next := kind(db.CreateToken(ctx, testToken("next")))
	for range 3 {
		if next != ErrNoSpace.Error() {
			break
		}
		next = kind(db.CreateToken(ctx, testToken("next")))
	}
	fmt.Println("next", next)
	tokens, err := db.Tokens(ctx)
	fmt.Println("read", kind(err), len(tokens))
	select {
	case <-db.Failed():
		fmt.Println("failed")
	default:
	}
	return db.Close()
}

// The system call that fails is chosen by strace; the disk works again after it.
func TestInjectedErrors(t *testing.T) {
	strace := needsProgram(t, "strace", "strace")
	for _, c := range []struct {
		inject string
		change error
		next   string
	}{
		{"fdatasync:error=EIO:when=41", ErrFailed, ErrFailed.Error()}, // the data of a commit
		{"fdatasync:error=EIO:when=42", ErrFailed, ErrFailed.Error()}, // its meta page
		{"pwrite64:error=EIO:when=80", ErrFailed, ErrFailed.Error()},
		{"fsync:error=EIO:when=1", ErrFailed, ErrFailed.Error()}, // of a file that grows
		{"pwrite64:error=ENOSPC:when=80", ErrNoSpace, "ok"},
		{"fdatasync:error=ENOSPC:when=41", ErrFailed, ErrFailed.Error()}, // after a sync nothing is certain
	} {
		t.Run(c.inject, func(t *testing.T) {
			o := options(privateDir(t))
			check(t, Create(o))
			call, _, _ := strings.Cut(c.inject, ":")
			cmd := exec.Command(strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace="+call, "-e", "inject="+c.inject, os.Args[0])
			cmd.Env = append(os.Environ(), childVar+"=until-error", dirVar+"="+o.Dir)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if strings.Contains(string(out), "ptrace") {
				needs(t, "strace may not trace here: "+string(out))
			}
			check(t, err)
			var acknowledged int
			if _, err := fmt.Sscanf(string(out), "acknowledged %d", &acknowledged); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			answer := func(readable int) string {
				s := fmt.Sprintf("acknowledged %d\nchange %v\nnext %v\nread ok %d\n", acknowledged, c.change, c.next, readable)
				if c.change == ErrFailed {
					s += "failed\n"
				}
				return s
			}
			// One more than acknowledged: next, or one of which nothing is known,
			// because its meta page was written and not synced.
			switch got := string(out); {
			case acknowledged > 0 && got == answer(acknowledged) && c.next != "ok":
			case acknowledged > 0 && got == answer(acknowledged+1):
			default:
				t.Errorf("got\n%swant\n%s", got, answer(acknowledged))
			}
			// The next start sees all that was acknowledged, and works.
			db := openTest(t, o)
			for i := range acknowledged {
				if _, err := db.TokenByDigest(t.Context(), testToken(fmt.Sprint("t", i)).Digest); err != nil {
					t.Errorf("token %d of %d: %v", i, acknowledged, err)
				}
			}
			check(t, db.CreateToken(t.Context(), testToken("after")))
			if r, err := db.Check(t.Context()); err != nil || len(r.Problems) > 0 {
				t.Errorf("%s, %v", problems(r), err)
			}
		})
	}
}
