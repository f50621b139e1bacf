package speaker

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"ze.internal/ze/appliance/bgp"
)

// Session states as RFC 4271 section 8.2.2 names them.
const (
	idle        = "idle"
	established = "established"
)

var stateNames = map[packet.FSMState]string{
	packet.BGP_FSM_IDLE:        idle,
	packet.BGP_FSM_CONNECT:     "connect",
	packet.BGP_FSM_ACTIVE:      "active",
	packet.BGP_FSM_OPENSENT:    "open-sent",
	packet.BGP_FSM_OPENCONFIRM: "open-confirm",
	packet.BGP_FSM_ESTABLISHED: established,
}

// session is what the library tells of a session only once, in events.
type session struct {
	name      string // of the peer
	state     string
	since     time.Time  // entered established
	local     netip.Addr // our address of the session
	routerID  netip.Addr
	flaps     uint32
	lastDown  string
	lastError string
	overLimit bool
	lost      bool // ended, and the library's peer not renewed since
	fresh     bool // established, and not resynchronised since

	// UPDATE messages of the library's earlier peers, which counted for themselves.
	updatesIn, updatesOut uint64
}

// sessions follows the events of all peers. Its methods only copy: the library
// queues events without bound while they run.
type sessions struct {
	lost chan struct{} // holds a value when takeLost may return a peer
	up   chan struct{} // holds a value when takeFresh may return a peer

	reports *reports

	mu     sync.Mutex
	byPeer map[netip.Addr]*session
}

func newSessions() *sessions {
	return &sessions{
		lost: make(chan struct{}, 1), up: make(chan struct{}, 1), reports: newReports(), byPeer: map[netip.Addr]*session{},
	}
}

// keep forgets all sessions but those of the given peers.
func (s *sessions) keep(peers []bgp.PeerConfig) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.byPeer
	s.byPeer = make(map[netip.Addr]*session, len(peers))
	for _, p := range peers {
		s.byPeer[p.Remote.IP] = old[p.Remote.IP]
	}
	for peer, p := range old {
		if p != nil && s.byPeer[peer] == nil && p.state == established {
			s.reports.down(p.name, "its configuration was changed or removed")
		}
	}
}

func (s *sessions) add(peer netip.Addr, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byPeer[peer] = &session{name: name, state: idle}
}

// name returns the name of the peer with this address, "" if there is none.
func (s *sessions) name(peer netip.Addr) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.byPeer[peer]; p != nil {
		return p.name
	}
	return ""
}

func (s *sessions) get(peer netip.Addr) session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.byPeer[peer]; known != nil {
		return *known
	}
	return session{state: idle}
}

func (s *sessions) update(ev *apiutil.WatchEventMessage_PeerEvent, at time.Time) {
	state, known := stateNames[ev.Peer.State.SessionState]
	if ev.Type != apiutil.PEER_EVENT_STATE || !known {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.byPeer[ev.Peer.State.NeighborAddress]
	if p == nil {
		return
	}
	switch {
	case state == established:
		p.since, p.lastError = at, ""
		p.local = ev.Peer.Transport.LocalAddress.Unmap().WithZone("")
		p.routerID = ev.Peer.State.RouterID
		p.fresh = true
		if p.state != established {
			s.reports.up(p.name)
		}
		time.AfterFunc(resyncDelay, func() {
			select {
			case s.up <- struct{}{}:
			default:
			}
		})
	case p.state == established:
		p.flaps++
		if ev.Peer.State.DisconnectReason == api.PeerState_DISCONNECT_REASON_UNSPECIFIED {
			s.reports.down(p.name, "started anew")
			break // renewing the peer ended it, for the reason of the loss before
		}
		if !p.overLimit {
			p.lastDown = downReason(ev)
		}
		s.reports.down(p.name, p.lastDown)
		p.lost = true
		select {
		case s.lost <- struct{}{}:
		default:
		}
	}
	p.state = state
}

// downReason words why a session ended: the library's own message where it has
// one, else the name of its reason.
func downReason(ev *apiutil.WatchEventMessage_PeerEvent) string {
	reason := strings.ToLower(strings.TrimPrefix(ev.Peer.State.DisconnectReason.String(), "DISCONNECT_REASON_"))
	reason = strings.ReplaceAll(reason, "_", "-")
	if m := strings.TrimPrefix(ev.Peer.State.DisconnectMessage, reason+" "); m != "" && m != reason {
		return fmt.Sprintf("%s: %s", reason, m)
	}
	return reason
}

func (s *sessions) failed(peer netip.Addr, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.byPeer[peer]; p != nil {
		p.lastError = problem
	}
}

func (s *sessions) exceeded(peer netip.Addr, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.byPeer[peer]; p != nil {
		p.overLimit, p.lastDown = true, "prefix limit: "+reason
	}
}

// takeLost reports whether a session was lost since it was last asked.
func (s *sessions) takeLost(peer netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.byPeer[peer]
	if p == nil || !p.lost {
		return false
	}
	p.lost = false
	return true
}

// takeFresh reports whether a session has come up, long enough ago, since it
// was last asked, and when that was.
func (s *sessions) takeFresh(peer netip.Addr) (up time.Time, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.byPeer[peer]
	if p == nil || !p.fresh || p.state != established || time.Since(p.since) < resyncDelay {
		return time.Time{}, false
	}
	p.fresh = false
	return p.since, true
}

// renewed keeps what the library's old peer has counted.
func (s *sessions) renewed(peer netip.Addr, m *api.Messages) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.byPeer[peer]; p != nil {
		p.overLimit = false
		p.updatesIn += m.GetReceived().GetUpdate()
		p.updatesOut += m.GetSent().GetUpdate()
	}
}
