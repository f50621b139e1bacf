package test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var programs = []string{"ze", "ze-mcp", "ze-test"}

// TestReproducible builds once more, in another directory, with an empty cache of
// the compiler, in another time zone and with other default permissions: every
// byte is the same.
func TestReproducible(t *testing.T) {
	deb, rpm := packages(t, "deb")[1], packages(t, "rpm")[1]
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", `
		export SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
		tar -C "$FROM" --exclude=./build --exclude='./[0-9]*' -c . | tar -C "$DIR" -x
		umask 077
		cd "$DIR"
		make packages VERSION="$VERSION" ARCHES="$ARCH" GO="env GOCACHE=$DIR/cache go" NFPM="go tool -modfile=packaging/tools/go.mod nfpm"`)
	cmd.Env = append(os.Environ(), "FROM="+packagesDir, "DIR="+dir, "VERSION="+newVersion, "ARCH="+runtime.GOARCH, "TZ=Pacific/Auckland", "LC_ALL=C")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make packages: %v\n%s", err, out)
	}
	same := func(one, other string) {
		t.Helper()
		if digest(t, one) != digest(t, other) {
			t.Errorf("%s differs from one build to the next", filepath.Base(one))
		}
	}
	for _, p := range programs {
		path := filepath.Join("build", runtime.GOARCH, p)
		same(filepath.Join(packagesDir, path), filepath.Join(dir, path))
	}
	same(deb, filepath.Join(dir, "dist", filepath.Base(deb)))
	same(rpm, filepath.Join(dir, "dist", filepath.Base(rpm)))
}

func digest(t *testing.T, file string) [sha256.Size]byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(b)
}

// TestLint: the tools of Debian and of rpm find neither errors nor warnings, in
// the packages of both architectures.
func TestLint(t *testing.T) {
	need(t, "lintian", "lintian")
	need(t, "rpmlint", "rpmlint")
	packages(t, "deb")
	all := t.TempDir()
	t.Log(run(t, "", "sh", "-ec", `
		export SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
		cd "$1"
		make packages VERSION="$2" ARCHES="`+map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]+`" DIST="$3" BUILD="$3/build"
		cp "$2"/* "$3"
		make lint DIST="$3"
		cd "$3"
		ls -s *.deb *.rpm`, "-", packagesDir, newVersion, all))
	for _, pattern := range []string{"*.deb", "*.rpm"} {
		if files, err := filepath.Glob(filepath.Join(all, pattern)); err != nil || len(files) != 2 {
			t.Errorf("%s: %v, %v, want two", pattern, files, err)
		}
	}
}

// spdx is an expression of license identifiers, as they are in use here.
var spdx = regexp.MustCompile(`^[A-Z][0-9A-Za-z.-]+( AND [A-Z][0-9A-Za-z.-]+)*$`)

// TestParts: the list of parts has what is in the programs with their licenses,
// and what those want to be passed on is there.
func TestParts(t *testing.T) {
	need(t, "dpkg", "dpkg-deb")
	dir := t.TempDir()
	run(t, "", "dpkg-deb", "--extract", packages(t, "deb")[1], dir)
	var want []string
	for _, p := range programs {
		info, err := buildinfo.ReadFile(filepath.Join(dir, "usr/bin", p))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, "stdlib@"+strings.TrimPrefix(info.GoVersion, "go"))
		for _, m := range info.Deps {
			want = append(want, m.Path+"@"+m.Version)
		}
	}
	slices.Sort(want)
	want = slices.Compact(want)

	doc := filepath.Join(dir, "usr/share/doc/ze")
	text, err := os.ReadFile(filepath.Join(doc, "sbom.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var sbom struct {
		BOMFormat  string
		Metadata   struct{ Component struct{ Version string } }
		Components []struct {
			Name, Version string
			Licenses      []struct{ Expression string }
		}
	}
	if err := json.Unmarshal(text, &sbom); err != nil {
		t.Fatal(err)
	}
	if sbom.BOMFormat != "CycloneDX" || sbom.Metadata.Component.Version != newVersion {
		t.Errorf("it is a %s of version %s", sbom.BOMFormat, sbom.Metadata.Component.Version)
	}
	var got []string
	for _, c := range sbom.Components {
		got = append(got, c.Name+"@"+c.Version)
		if len(c.Licenses) != 1 || !spdx.MatchString(c.Licenses[0].Expression) {
			t.Errorf("%s: its license is %v", c.Name, c.Licenses)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("listed are\n%v\nin the programs are\n%v", got, want)
	}

	packed, err := os.ReadFile(filepath.Join(doc, "third-party.txt.gz"))
	if err != nil {
		t.Fatal(err)
	}
	unpack, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	licenses, err := io.ReadAll(unpack)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range want {
		name, version, _ := strings.Cut(part, "@")
		heading := "======== " + name + " " + version + ": "
		if name == "stdlib" {
			heading = "======== Go\n"
		}
		if !bytes.Contains(licenses, []byte(heading)) {
			t.Errorf("there is no license of %s", part)
		}
	}
}

// TestUser: the user is the same before and after the packaged description of it
// is there.
func TestUser(t *testing.T) {
	packaged, err := os.ReadFile("../../systemd/ze.sysusers")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("../scripts/preinst.sh")
	if err != nil {
		t.Fatal(err)
	}
	var line string
	for l := range strings.Lines(string(packaged)) {
		if !strings.HasPrefix(l, "#") {
			line = strings.Join(strings.Fields(l), " ")
		}
	}
	if !strings.Contains(string(script), "\t\t"+line+"\n") {
		t.Errorf("packaging/scripts/preinst.sh does not make the user of systemd/ze.sysusers: %s", line)
	}
}
