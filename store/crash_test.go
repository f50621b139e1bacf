package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/bgp"
)

// clients is how many writers the child of the crash tests has.
const clients = 8

// writeAsClients is what that child does: each client keeps a number that only
// grows, in one transaction with the audit records of the change, and prints it
// once it is acknowledged.
func writeAsClients(dir string, sync_ bool) error {
	o := options(dir)
	o.Create = false
	db, err := Open(o)
	if err != nil {
		return err
	}
	db.bolt.Load().NoSync = !sync_
	have, _, err := kept(db)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	for c := range clients {
		wg.Go(func() {
			for n := have[c] + 1; ; n++ {
				a := testAnnouncement(fmt.Sprint(c), 1)
				a.TagKey, a.TagValue = "n", fmt.Sprint(n)
				call := audit.Record{Phase: audit.Call, Principal: fmt.Sprint(c), Command: "announce", Args: fmt.Sprint(n)}
				ctx := audit.WithPending(context.Background(), audit.NewPending(call))
				if err := db.ReplaceAnnouncements(ctx, []bgp.Announcement{a}, nil); err != nil {
					once.Do(func() { first = err })
					return
				}
				fmt.Printf("%d %d\n", c, n) // one write, so lines of several clients do not mix
			}
		})
	}
	wg.Wait()
	return first
}

// kept returns the number of each client as it is in the store, and as the audit
// log has it.
func kept(db *DB) (numbers, audited [clients]int, err error) {
	ctx := context.Background()
	all, err := db.Announcements(ctx)
	if err != nil {
		return numbers, audited, err
	}
	for _, a := range all {
		var c, n int
		if _, err := fmt.Sscan(a.ID+" "+a.TagValue, &c, &n); err != nil {
			return numbers, audited, err
		}
		numbers[c] = n
	}
	for after := uint64(0); ; {
		records, err := db.AuditRecords(ctx, after, 1000)
		if err != nil || len(records) == 0 {
			return numbers, audited, err
		}
		for _, r := range records {
			var c, n int
			if _, err := fmt.Sscan(r.Principal+" "+r.Args, &c, &n); err != nil {
				return numbers, audited, err
			}
			audited[c], after = n, r.Seq
		}
	}
}

// acknowledgements collects what a child prints until it ends.
func acknowledgements(p *process, have *[clients]int) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(p.out); lines.Scan(); {
			var c, n int
			if _, err := fmt.Sscan(lines.Text(), &c, &n); err == nil {
				have[c] = n
			}
		}
	}()
	return done
}

// nothingLost opens the store and holds it against what was acknowledged, which
// it brings up to what is kept. It returns how many changes are missing.
func nothingLost(t *testing.T, o Options, acknowledged *[clients]int) (lost int) {
	t.Helper()
	db, err := Open(o)
	check(t, err)
	defer db.Close()
	r, err := db.Check(t.Context())
	check(t, err)
	if len(r.Problems) > 0 {
		t.Errorf("check:\n%s", problems(r))
	}
	have, audited, err := kept(db)
	check(t, err)
	if have != audited {
		t.Errorf("the changes %v and their audit records %v do not agree", have, audited)
	}
	for c := range clients {
		if have[c] > acknowledged[c]+1 {
			t.Errorf("client %d: %d is kept and only %d was acknowledged", c, have[c], acknowledged[c])
		}
		lost += max(0, acknowledged[c]-have[c])
	}
	*acknowledged = have
	return lost
}

func TestKilledUnderClients(t *testing.T) {
	var o Options
	var acknowledged [clients]int
	total := 0
	for round := range 50 {
		if round%5 == 0 { // or the audit log becomes what is measured
			o, acknowledged = options(privateDir(t)), [clients]int{}
			check(t, Create(o))
		}
		p := spawn(t, "clients", o.Dir)
		if line := p.line(t); line != "ready" {
			t.Fatal(line)
		}
		done := acknowledgements(p, &acknowledged)
		<-time.After(time.Duration(20+rand.IntN(100)) * time.Millisecond)
		check(t, p.Process.Kill())
		<-done
		p.Wait()
		if lost := nothingLost(t, o, &acknowledged); lost > 0 {
			t.Fatalf("round %d: %d acknowledged changes are lost", round, lost)
		}
		if round%5 == 4 {
			for _, n := range acknowledged {
				total += n
			}
		}
	}
	if total < 50*clients {
		t.Errorf("only %d changes in all: the test has tested nothing", total)
	}
	t.Logf("%d changes acknowledged", total)
}

// needs ends a test that cannot run here: as skipped, but as failed in
// continuous integration.
func needs(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}

func needsProgram(t *testing.T, name, debian string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	needs(t, "needs "+name+": Debian package "+debian)
	return ""
}

// smallDisk is an ext4 file system of its own that can lose its power.
type smallDisk struct {
	image, dir string
}

func newSmallDisk(t *testing.T) *smallDisk {
	t.Helper()
	mkfs := needsProgram(t, "mkfs.ext4", "e2fsprogs")
	needsProgram(t, "mount", "mount")
	if os.Geteuid() != 0 {
		needs(t, "mounting a file system needs root")
	}
	d := &smallDisk{filepath.Join(t.TempDir(), "image"), filepath.Join(t.TempDir(), "disk")}
	check(t, os.Mkdir(d.dir, 0o700))
	check(t, os.WriteFile(d.image, nil, 0o600))
	check(t, os.Truncate(d.image, 64<<20))
	d.run(t, mkfs, "-q", d.image)
	t.Cleanup(func() { unix.Unmount(d.dir, unix.MNT_DETACH) })
	return d
}

func (d *smallDisk) run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		if name == "mount" {
			needs(t, fmt.Sprintf("needs loop devices: %s", out))
		}
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}

func (d *smallDisk) mount(t *testing.T) { t.Helper(); d.run(t, "mount", "-o", "loop", d.image, d.dir) }

func (d *smallDisk) unmount(t *testing.T) { t.Helper(); d.run(t, "umount", d.dir) }

// cut takes the power away: FS_IOC_SHUTDOWN without flushing the journal. From
// then on nothing reaches the image; what a sync has returned for is there.
func (d *smallDisk) cut(t *testing.T) {
	t.Helper()
	const shutdown, noLogFlush = 0x8004587D, 2 // _IOR('X', 125, __u32), linux/fs/ext4/ext4.h
	f, err := os.Open(d.dir)
	check(t, err)
	defer f.Close()
	flag := uint32(noLogFlush)
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&flag))); e != 0 {
		needs(t, "the file system cannot be shut down: "+e.Error())
	}
}

// powerCut lets clients write, cuts the power at a random time, and returns how
// many changes were acknowledged.
func powerCut(t *testing.T, d *smallDisk, mode string, acknowledged *[clients]int) (written int) {
	t.Helper()
	o := options(filepath.Join(d.dir, "data"))
	before := *acknowledged
	p := spawn(t, mode, o.Dir)
	if line := p.line(t); line != "ready" {
		t.Fatal(line)
	}
	done := acknowledgements(p, acknowledged)
	<-time.After(time.Duration(50+rand.IntN(250)) * time.Millisecond)
	d.cut(t)
	p.Process.Kill()
	<-done
	p.Wait()
	d.unmount(t)
	d.mount(t)
	for c := range clients {
		written += acknowledged[c] - before[c]
	}
	return written
}

func TestPowerCut(t *testing.T) {
	d := newSmallDisk(t)
	d.mount(t)
	defer d.unmount(t)
	total := 0
	var acknowledged [clients]int
	for round := range 20 {
		if round%5 == 0 {
			dir := filepath.Join(d.dir, "data")
			check(t, os.RemoveAll(dir))
			check(t, os.Mkdir(dir, 0o700))
			check(t, Create(options(dir)))
			acknowledged = [clients]int{}
		}
		written := powerCut(t, d, "clients", &acknowledged)
		if lost := nothingLost(t, options(filepath.Join(d.dir, "data")), &acknowledged); lost > 0 {
			t.Fatalf("round %d: %d of %d acknowledged changes are lost", round, lost, written)
		}
		total += written
	}
	if total < 20*clients {
		t.Errorf("only %d changes in all: the test has tested nothing", total)
	}
	t.Logf("%d changes acknowledged", total)
}

// The control: without syncs the same power cut does lose changes. If it did
// not, TestPowerCut would prove nothing.
func TestPowerCutWithoutSync(t *testing.T) {
	d := newSmallDisk(t)
	d.mount(t)
	defer d.unmount(t)
	dir := filepath.Join(d.dir, "data")
	check(t, os.Mkdir(dir, 0o700))
	check(t, Create(options(dir)))
	check(t, syncFile(d.dir))
	var acknowledged [clients]int
	written := powerCut(t, d, "clients-nosync", &acknowledged)
	db, err := Open(options(dir))
	if errors.Is(err, ErrDamaged) {
		t.Logf("all of %d acknowledged changes are lost: %v", written, err)
		return
	}
	check(t, err)
	defer db.Close()
	have, _, err := kept(db)
	check(t, err)
	if have == acknowledged {
		t.Errorf("nothing lost of %d changes: the rig does not cut the power", written)
	}
	t.Logf("acknowledged %v, kept %v", acknowledged, have)
}

// A backup, a restored database and a compacted one are on disk when that is
// said.
func TestPowerCutAfterMaintenance(t *testing.T) {
	source := options(privateDir(t))
	db := openTest(t, source)
	fill(t, db)
	want, err := dump(t, db)
	check(t, err)
	file := filepath.Join(t.TempDir(), "backup.db")
	_, err = db.Backup(t.Context(), file, false)
	check(t, err)
	d := newSmallDisk(t)
	restored := options(filepath.Join(d.dir, "data"))
	for what, act := range map[string]func() string{
		"backup": func() string {
			file := filepath.Join(d.dir, "copy.db")
			_, err := db.Backup(t.Context(), file, false)
			check(t, err)
			return file
		},
		"restore": func() string {
			check(t, Create(restored)) // so that there is something to replace
			_, err := Restore(restored, file, false)
			check(t, err)
			return filepath.Join(restored.Dir, FileName)
		},
		"compact": func() string {
			_, err := Restore(restored, file, false)
			check(t, err)
			db, err := Open(restored)
			check(t, err)
			_, err = db.Compact(t.Context())
			check(t, err)
			check(t, db.Close())
			return filepath.Join(restored.Dir, FileName)
		},
	} {
		d.mount(t)
		path := act()
		d.cut(t)
		d.unmount(t)
		d.mount(t)
		back := options(privateDir(t))
		if _, err := Restore(back, path, false); err != nil {
			t.Errorf("%s: %v", what, err)
		} else {
			sameContent(t, openTest(t, back), want)
		}
		check(t, os.RemoveAll(restored.Dir))
		d.unmount(t)
	}
}

// A first start that loses its power leaves no database, or a complete one.
func TestPowerCutWhileCreating(t *testing.T) {
	d := newSmallDisk(t)
	fresh, complete := 0, 0
	for round := range 20 {
		d.mount(t)
		dir := filepath.Join(d.dir, fmt.Sprint("data", round))
		check(t, os.Mkdir(dir, 0o700))
		check(t, syncFile(d.dir))
		p := spawn(t, "create", dir)
		p.line(t)
		<-time.After(time.Duration(round) * time.Millisecond)
		d.cut(t)
		p.Process.Kill()
		p.Wait()
		d.unmount(t)
		d.mount(t)
		o := options(dir)
		o.Create = false
		db, err := Open(o)
		switch {
		case errors.Is(err, ErrMissing) && !strings.Contains(err.Error(), "gone"):
			fresh++
			o.Create = true
			db, err = Open(o)
			check(t, err)
		case err != nil:
			t.Fatalf("cut after %d ms: %v", round, err)
		default:
			complete++
		}
		check(t, db.CreateToken(t.Context(), testToken("a")))
		check(t, db.Close())
		d.unmount(t)
	}
	t.Logf("%d left nothing, %d a complete database", fresh, complete)
}
