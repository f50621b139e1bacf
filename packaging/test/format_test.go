package test

import (
	"regexp"
	"strings"
)

// format is how packages of a kind are handled.
type format interface {
	installing(version string) string // the command that installs, or upgrades, or downgrades
	remove()
	removeHalfWay() // a removal that fails when its first part is done, if there can be one
	purge()
	settingsKept()  // fails unless remove kept the edited settings
	verify() string // what is not as packaged, but for the settings
	size() string
	leaves() string // what purge has to leave, by the format's rules
}

var formats = map[string]format{"deb": deb{}, "rpm": rpm{}}

type deb struct{}

func (deb) installing(version string) string {
	return "apt-get install -y -q --allow-downgrades --reinstall /share/" + fileName("deb", version) + " </dev/null"
}
func (deb) remove() { sh("apt-get remove -y -q ze") }
func (deb) removeHalfWay() {
	const script = "/var/lib/dpkg/info/ze.prerm"
	sh("cp -p " + script + " /run/ze.prerm && echo 'echo its work is done; exit 1' >>" + script)
	out, code := try("apt-get remove -y -q ze")
	sh("mv /run/ze.prerm " + script)
	if code == 0 {
		failf("it is removed: %s", out)
	}
	holds("the removal", out, "its work is done")
}
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

func (rpm) installing(version string) string {
	file := "/share/" + fileName("rpm", version)
	// The database of rpm knows nothing of Debian's packages: what the package
	// needs is held against what every such system has.
	for need := range strings.Lines(sh("rpm -qp --requires " + file)) {
		if !regexp.MustCompile(`^(systemd|util-linux|/bin/sh|rpmlib\(.*|config\(.*)`).MatchString(need) {
			failf("the package needs %s", need)
		}
	}
	return "rpm -U --nodeps --oldpackage --replacepkgs " + file
}
func (rpm) remove()        { sh("rpm -e ze") }
func (rpm) removeHalfWay() {} // its script never fails, and nothing asks it afterwards
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
