package test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// basePackages are what a machine has besides Debian's essential packages.
var basePackages = []string{"systemd", "systemd-sysv", "dbus", "init-system-helpers", "nodejs", "procps", "rpm"}

// rootfs returns the file system of a Debian release. It is made once and kept in
// the user's cache directory; no test changes it.
func rootfs(t *testing.T, suite string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir() // no home: made anew with the next boot of this machine
	}
	cache = filepath.Join(cache, "ze")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	packages := strings.Join(basePackages, ",")
	root := filepath.Join(cache, fmt.Sprintf("%s-%.4x", suite, sha256.Sum256([]byte(packages))))
	lock, err := os.Create(root + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root); err == nil {
		return root
	}
	began, part := time.Now(), root+".part"
	if err := os.RemoveAll(part); err != nil {
		t.Fatal(err)
	}
	run(t, "", "mmdebstrap", "--quiet", "--mode=root", "--format=directory", "--variant=minbase", "--include="+packages, suite, part)
	if err := os.WriteFile(filepath.Join(part, "etc/hostname"), []byte("life\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(part, root); err != nil {
		t.Fatal(err)
	}
	t.Logf("made a file system of %s in %s", suite, time.Since(began).Round(time.Second))
	return root
}

// machine is one to boot.
type machine struct {
	suite   string            // release of Debian
	unified bool              // cgroup v2 alone, as newer releases of systemd insist on
	env     map[string]string // of the life inside
	files   []string          // put beside it, in /share
}

// boot boots the machine, lets the life run inside and returns what it printed.
func (m machine) boot(t *testing.T, life string, limit time.Duration) string {
	t.Helper()
	root, dir := rootfs(t, m.suite), t.TempDir()
	share := filepath.Join(dir, "share")
	if err := os.Mkdir(share, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range m.files {
		link(t, f, filepath.Join(share, filepath.Base(f)))
	}
	link(t, life, filepath.Join(share, "life"))
	var env bytes.Buffer
	for k, v := range m.env {
		fmt.Fprintf(&env, "%s=%q\n", k, v)
	}
	if err := os.WriteFile(filepath.Join(share, "env"), env.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--mount-proc",
		"sh", "boot.sh", root, dir)
	cmd.Env = append(os.Environ(), "CGROUPS="+strings.Join(ownCgroups(t), " "))
	if m.unified {
		cmd.Env = append(cmd.Env, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1")
	}
	var console bytes.Buffer
	cmd.Stdout, cmd.Stderr = &console, &console
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	output, readErr := os.ReadFile(filepath.Join(share, "output"))
	if err != nil || readErr != nil {
		t.Errorf("the machine: %v, %v\n%s", err, readErr, console.Bytes())
	}
	return string(output)
}

// ownCgroups returns new groups below this process's own, one in each hierarchy:
// without them the machine would take over those that it finds, and two machines
// each other's. They are removed with the test.
func ownCgroups(t *testing.T) []string {
	t.Helper()
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	// Of one name, because systemd-nspawn makes in one what it finds in another.
	name := "life-" + strings.ToLower(rand.Text()[:8])
	var made []string
	for line := range strings.Lines(string(groups)) { // ID:CONTROLLERS:PATH
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		for mount := range strings.Lines(string(mounts)) { // DEVICE WHERE TYPE OPTIONS …
			m := strings.Fields(mount)
			v1 := m[2] == "cgroup" && f[1] != "" && slices.Contains(strings.Split(m[3], ","), strings.Split(f[1], ",")[0])
			if !v1 && (m[2] != "cgroup2" || f[1] != "") {
				continue
			}
			parent := filepath.Join(m[1], f[2])
			dir := filepath.Join(parent, name)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Logf("%v: this hierarchy is left to what is there", err)
				break
			}
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // empty ones take no process
				if set, err := os.ReadFile(filepath.Join(parent, file)); err == nil {
					_ = os.WriteFile(filepath.Join(dir, file), set, 0o644) // entering says whether it worked
				}
			}
			made = append(made, dir)
			t.Cleanup(func() { removeGroups(dir) })
			break
		}
	}
	return made
}

// removeGroups removes a group and those below it, once their last process is gone.
func removeGroups(dir string) {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var below []string
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				below = append(below, path)
			}
			return nil // what vanishes meanwhile is meant to
		})
		for _, d := range slices.Backward(below) {
			_ = syscall.Rmdir(d) // tried again
		}
		if _, err := os.Stat(dir); err != nil {
			return
		}
	}
}

// link makes a file appear at another place, by a copy if it must.
func link(t *testing.T, from, to string) {
	t.Helper()
	if os.Link(from, to) == nil {
		return
	}
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
