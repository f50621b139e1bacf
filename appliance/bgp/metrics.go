package bgp

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	scrapeCache   = time.Second            // scrapes within it share one answer of the speaker
	scrapeTimeout = 500 * time.Millisecond // a scrape waits no longer for the speaker
)

// metrics is the collector of this room. It asks the speaker at most once in
// scrapeCache, because that counts routes to answer.
type metrics struct {
	s *Service

	peers, peerUp, prefixes, speakerUp   *prometheus.Desc
	flaps, updates, received, sent, over *prometheus.Desc

	mu    sync.Mutex
	taken time.Time
	cfg   *Config      // the configuration list is of
	list  []PeerStatus // every configured peer
	err   error        // why the speaker did not answer; nil: it did
}

func newMetrics(s *Service) *metrics {
	return &metrics{
		s:         s,
		peers:     prometheus.NewDesc("ze_bgp_peers", "Configured BGP peers by session state.", []string{"state"}, nil),
		peerUp:    prometheus.NewDesc("ze_bgp_peer_up", "Whether the session with a peer is established.", []string{"peer"}, nil),
		prefixes:  prometheus.NewDesc("ze_bgp_announced_prefixes", "Prefixes announced here.", nil, nil),
		speakerUp: prometheus.NewDesc("ze_bgp_speaker_up", "Whether the BGP speaker answers.", nil, nil),
		flaps:     prometheus.NewDesc("ze_bgp_peer_flaps_total", "Sessions with a peer that were established and lost, since the BGP speaker started.", []string{"peer"}, nil),
		updates:   prometheus.NewDesc("ze_bgp_peer_updates_total", "BGP UPDATE messages exchanged with a peer.", []string{"peer", "direction"}, nil),
		received:  prometheus.NewDesc("ze_bgp_peer_received_prefixes", "Prefixes received from a peer (Adj-RIB-In).", []string{"peer", "family"}, nil),
		sent:      prometheus.NewDesc("ze_bgp_peer_sent_prefixes", "Prefixes of ours that a peer should have (Adj-RIB-Out).", []string{"peer", "family"}, nil),
		over:      prometheus.NewDesc("ze_bgp_peer_over_prefix_limit", "Whether a peer is kept down because it sent more prefixes than allowed.", []string{"peer"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{m.peers, m.peerUp, m.prefixes, m.speakerUp, m.flaps, m.updates, m.received, m.sent, m.over} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. While the speaker does not answer its
// counts have no values, rather than zeros; and while it runs and is late, nobody
// knows of its sessions either.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	list, err := m.snapshot()
	up := err == nil
	states := map[string]int{"idle": 0, "connect": 0, "active": 0, "open-sent": 0, "open-confirm": 0, "established": 0}
	for _, p := range list {
		states[p.State]++
		if !errors.Is(err, errSilent) {
			gauge(m.peerUp, oneIf(p.State == "established"), p.Name)
		}
		if !up {
			continue
		}
		gauge(m.over, oneIf(p.Admin == "prefix-limit"), p.Name)
		count(m.flaps, uint64(p.Flaps), p.Name)
		count(m.updates, p.UpdatesIn, p.Name, "in")
		count(m.updates, p.UpdatesOut, p.Name, "out")
		for _, f := range p.Families {
			gauge(m.received, float64(f.Received), p.Name, string(f.Family))
			gauge(m.sent, float64(f.Sent), p.Name, string(f.Family))
		}
	}
	for state, n := range states {
		gauge(m.peers, float64(n), state)
	}
	m.s.mu.RLock()
	announced := len(m.s.owner)
	m.s.mu.RUnlock()
	gauge(m.prefixes, float64(announced))
	gauge(m.speakerUp, oneIf(up))
}

// snapshot returns the peers, and why the speaker did not answer if so.
func (m *metrics) snapshot() ([]PeerStatus, error) {
	cfg, err := m.s.config()
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if age := m.s.o.Clock().Sub(m.taken); cfg != m.cfg || age < 0 || age >= scrapeCache {
		list, err := m.s.ask(context.Background(), cfg, scrapeTimeout)
		m.cfg, m.list, m.err = cfg, list, err
		m.taken = m.s.o.Clock()
	}
	return m.list, m.err
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
