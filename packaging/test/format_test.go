package test

import (
	"regexp"
	"strings"
)

// format is how packages of a kind are handled.
type format interface {
	install(version string) // or upgrade, or downgrade
	remove()
	purge()
	settingsKept()  // fails unless remove kept the edited settings
	verify() string // what is not as packaged, but for the settings
	size() string
	leaves() string // what purge has to leave, by the format's rules
}

var formats = map[string]format{"deb": deb{}, "rpm": rpm{}}

type deb struct{}

func (deb) install(version string) {
	sh("apt-get install -y -q --allow-downgrades --reinstall /share/" + fileName("deb", version) + " </dev/null")
}
func (deb) remove()       { sh("apt-get remove -y -q ze") }
func (deb) purge()        { sh("apt-get purge -y -q ze") }
func (deb) settingsKept() { same("settings", sh("tail -1 "+envFile), "# edited") }
func (deb) size() string  { return sh("dpkg-query -W -f '${Installed-Size}' ze") + " KiB" }
func (deb) leaves() string {
	return ""
}
func (deb) verify() string {
	// The settings are edited, and on purpose.
	return strings.Join(other.FindAllString(quiet("dpkg --verify ze"), -1), "\n")
}

type rpm struct{}

func (rpm) install(version string) {
	file := "/share/" + fileName("rpm", version)
	// The database of rpm knows nothing of Debian's packages: what the package
	// needs is held against what every such system has.
	for need := range strings.Lines(sh("rpm -qp --requires " + file)) {
		if !regexp.MustCompile(`^(systemd|util-linux|/bin/sh|rpmlib\(.*|config\(.*)`).MatchString(need) {
			failf("the package needs %s", need)
		}
	}
	sh("rpm -U --nodeps --oldpackage --replacepkgs " + file)
}
func (rpm) remove() { sh("rpm -e ze") }
func (rpm) purge() {
	rpm{}.remove()
	// An rpm has no purge: what the administrator made is the administrator's.
	sh("rm -r " + stateDir + " /etc/ze")
}
func (rpm) settingsKept() {
	same("settings", sh("tail -1 "+envFile+".rpmsave"), "# edited")
	sh("mv " + envFile + ".rpmsave " + envFile)
}
func (rpm) size() string   { return sh("rpm -q --qf '%{SIZE}' ze") + " bytes" }
func (rpm) leaves() string { return "" }
func (rpm) verify() string {
	return strings.Join(other.FindAllString(quiet("rpm -V --nodeps ze"), -1), "\n")
}

// other matches what a verification reports besides the settings.
var other = regexp.MustCompile(`(?m)^.* (?:/[^e]|/e[^t]|/etc/[^z]).*$`)
