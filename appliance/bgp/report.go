package bgp

// Report is something a speaker tells unasked, soon after it happened.
type Report struct {
	Kind   ReportKind `json:"kind"`
	Peer   string     `json:"peer"`             // its name
	Reason string     `json:"reason,omitempty"` // PeerDown: why the session ended

	// RoutesChanged: what the peer has sent since the last report of this kind.
	Family    Family `json:"family,omitempty"`
	Announced uint64 `json:"announced,omitempty"` // routes, those it sent anew included
	Withdrawn uint64 `json:"withdrawn,omitempty"`
}

// ReportKind says what a Report is about.
type ReportKind string

// The kinds of report. For each session PeerUp and PeerDown alternate.
const (
	PeerUp        ReportKind = "peer-up"        // its session carries routes from now on
	PeerDown      ReportKind = "peer-down"      // its session has ended
	RoutesChanged ReportKind = "routes-changed" // it has sent or withdrawn routes; for each family at most once a second
)
