package access

import (
	"os/user"
	"strings"
)

// Names of callers who bring no token of the store.
const (
	NameAnonymous  = "anonymous"  // everybody, in mode none
	NameConfigured = "configured" // the token of the configuration
	NameOverride   = "override"   // the token given by flag or environment
	NameSelf       = "ze"         // the appliance itself, in the history of the configuration
)

// NameTaken says who else goes by a name in the audit log and the history of
// the configuration, so that no token may; "" if nobody does. Local users come
// by the control socket with the name they log in with: see PeerPrincipal.
func NameTaken(name string) (by string) {
	switch strings.ToLower(name) {
	case NameAnonymous:
		return "everybody, in auth-mode none"
	case NameConfigured:
		return "whoever brings the token of the configuration"
	case NameOverride:
		return "whoever brings the token given by flag or environment"
	case NameSelf:
		return "the appliance itself"
	case "root":
		return "the local user root"
	}
	if _, err := user.Lookup(name); err == nil {
		return "the local user " + name
	}
	return ""
}
