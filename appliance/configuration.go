package appliance

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/appliance/config"
	"ze.internal/ze/appliance/schema"
	"ze.internal/ze/appliance/task"
)

// InitialConfig is what ze init keeps when no configuration is given.
const InitialConfig = `# The configuration of ze. Check a change with: ze config validate FILE
environment {
    mcp {
        enabled true;
        auth-mode bearer;
        server main { ip 127.0.0.1; port 8080; }
    }
    metrics {
        server main { ip 127.0.0.1; port 9179; }
    }
}
`

// Configuration is a configuration text that has passed every check, as values.
type Configuration struct {
	Environment struct {
		Instance struct {
			Name string `json:"name"`
		} `json:"instance"`
		MCP     mcpBlock     `json:"mcp"`
		Metrics metricsBlock `json:"metrics"`
		Audit   auditBlock   `json:"audit"`
		Task    taskBlock    `json:"task"`
		Log     struct {
			Level string `json:"level"`
		} `json:"log"`
	} `json:"environment"`
	BGP *bgp.Config `json:"bgp"`

	Warnings []string // what is allowed but unwise
}

type mcpBlock struct {
	Enabled    bool            `json:"enabled"`
	AuthMode   string          `json:"auth-mode"`
	Token      string          `json:"token"`
	Identities []identityBlock `json:"identity"`
	Servers    []serverBlock   `json:"server"`
	BindRemote bool            `json:"bind-remote"`
	TLS        struct {
		Cert string `json:"cert"`
		Key  string `json:"key"`
	} `json:"tls"`
	Limit struct {
		Rate       uint32 `json:"rate"`
		Burst      int    `json:"burst"`
		Concurrent int    `json:"concurrent"`
	} `json:"limit"`
}

type auditBlock struct {
	RetentionDays uint32 `json:"retention-days"`
	MaxRecords    int    `json:"max-records"`
}

type taskBlock struct {
	Running  int `json:"running"`
	Kept     int `json:"kept"`
	TTL      int `json:"ttl"` // seconds, as those below
	Deadline int `json:"deadline"`
	Poll     int `json:"poll"`
}

// limits returns what tasks may take.
func (b taskBlock) limits() task.Limits {
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	return task.Limits{Running: b.Running, Kept: b.Kept, TTL: seconds(b.TTL), Deadline: seconds(b.Deadline), Poll: seconds(b.Poll)}
}

type identityBlock struct {
	Name  string   `json:"name"`
	Token string   `json:"token"`
	Scope string   `json:"scope"`
	Allow []string `json:"allow"`
	Deny  []string `json:"deny"`
}

type metricsBlock struct {
	Enabled bool          `json:"enabled"`
	Servers []serverBlock `json:"server"`
}

type serverBlock struct {
	Name string     `json:"name"`
	IP   netip.Addr `json:"ip"`
	Port uint16     `json:"port"`
}

// Overrides are settings from the command line or the environment; they win
// over the configuration text and pass the same checks.
type Overrides struct {
	MCPListen       []netip.AddrPort // non-empty: serve MCP there, whether the block is enabled or not
	MCPToken        string           // an admin token beside those configured
	MCPCert, MCPKey string           // non-empty: files of the key pair of MCP
	MetricsListen   []netip.AddrPort // non-empty: serve metrics there

	// Where they came from, for messages: "--mcp", "ZE_MCP_LISTEN".
	MCPListenFrom, MCPTokenFrom, MCPTLSFrom, MetricsListenFrom string
}

// LoadConfiguration parses and checks a configuration text: grammar, model, and
// every rule of the rooms that will use it. It is the start gate: what it
// refuses never runs. storeTokens is how many tokens the store holds, -1 if
// that is unknown. The error is config.Problems.
func LoadConfiguration(file string, text []byte, o Overrides, storeTokens int) (*Configuration, error) {
	set, err := schema.Load([]schema.Source{config.Model()})
	if err != nil {
		return nil, fmt.Errorf("load the configuration model: %w", err)
	}
	tree, err := config.Parse(file, text)
	if err != nil {
		return nil, err
	}
	if err := config.Validate(tree, set.Data()); err != nil {
		return nil, err
	}
	if err := tree.Unmasked(set.Data()); err != nil {
		return nil, err
	}
	raw, err := tree.JSON(set.Data())
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	c := &Configuration{}
	if err := json.Unmarshal(raw, c); err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	c.override(o)

	var problems config.Problems
	// A setting from outside the text has no line in it, but a name.
	problem := func(from, path, message, allowed string) {
		p := config.Problem{File: from, Message: message, Allowed: allowed}
		if from == "" {
			p = tree.Problem(set.Data(), path, message, allowed)
		}
		problems = append(problems, p)
	}
	gate, err := c.gate(o, storeTokens)
	if err != nil {
		return nil, err
	}
	c.Environment.MCP.AuthMode = gate.Mode
	c.Warnings = gate.Warnings()
	for _, p := range gate.Check() {
		from := ""
		switch {
		case p.Path == "server" && len(o.MCPListen) > 0:
			from = o.MCPListenFrom
		case strings.HasPrefix(p.Path, "tls") && o.MCPCert+o.MCPKey != "":
			from = o.MCPTLSFrom
		}
		problem(from, "environment/mcp/"+p.Path, p.Message, p.Allowed)
	}
	if block := c.Environment.MCP.TLS; block.Cert != "" && block.Key != "" {
		if _, err := access.NewTLS(block.Cert, block.Key); err != nil {
			from := ""
			if o.MCPCert+o.MCPKey != "" {
				from = o.MCPTLSFrom
			}
			problem(from, "environment/mcp/tls", err.Error(), "a certificate chain and its private key, both PEM, the key readable by its owner only")
		}
	}
	if o.MCPToken != "" {
		if err := access.CheckSecret(o.MCPToken); err != nil {
			problem(o.MCPTokenFrom, "", err.Error(), access.SecretForm)
		}
	}
	for _, s := range c.Environment.Metrics.Servers {
		if !s.IP.IsLoopback() {
			from := ""
			if len(o.MetricsListen) > 0 {
				from = o.MetricsListenFrom
			}
			problem(from, fmt.Sprintf("environment/metrics/server[%s]/ip", s.Name),
				fmt.Sprintf("%s is not a loopback address, and metrics are served without authentication", s.IP), "127.0.0.1 or ::1")
		}
	}
	if b := c.Environment.Task; b.TTL < b.Deadline {
		problem("", "environment/task/ttl", fmt.Sprintf("%d s is less than deadline, %d s: what a long task answers would be forgotten before it does", b.TTL, b.Deadline),
			fmt.Sprintf("at least %d", b.Deadline))
	}
	if c.BGP != nil {
		c.BGP.SetDefaults()
		for _, e := range fieldErrors(c.BGP.Validate()) {
			problem("", "bgp/"+e.Field, e.Problem, e.Allowed)
		}
	}
	for _, l := range c.overlaps(o) {
		problem(l.from, l.path, fmt.Sprintf("%s is where %s listens, too", l.at, l.other), "an address or port of its own for each listener")
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return c, nil
}

func (c *Configuration) override(o Overrides) {
	mcp, metrics := &c.Environment.MCP, &c.Environment.Metrics
	if len(o.MCPListen) > 0 {
		mcp.Enabled = true
		mcp.Servers = servers(o.MCPListen)
	}
	if o.MCPCert != "" {
		mcp.TLS.Cert = o.MCPCert
	}
	if o.MCPKey != "" {
		mcp.TLS.Key = o.MCPKey
	}
	if mcp.Enabled && len(mcp.Servers) == 0 {
		mcp.Servers = []serverBlock{{Name: "main", IP: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Port: 8080}}
	}
	if len(o.MetricsListen) > 0 {
		metrics.Enabled = true
		metrics.Servers = servers(o.MetricsListen)
	}
	if metrics.Enabled && len(metrics.Servers) == 0 {
		metrics.Servers = []serverBlock{{Name: "main", IP: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Port: 9179}}
	}
}

func servers(at []netip.AddrPort) []serverBlock {
	out := make([]serverBlock, len(at))
	for i, a := range at {
		out[i] = serverBlock{Name: fmt.Sprintf("override-%d", i+1), IP: a.Addr(), Port: a.Port()}
	}
	return out
}

// fieldErrors takes the field errors out of what a room's check returned.
func fieldErrors(err error) []*bgp.FieldError {
	var out []*bgp.FieldError
	switch e := err.(type) {
	case nil:
	case *bgp.FieldError:
		out = append(out, e)
	case interface{ Unwrap() []error }:
		for _, sub := range e.Unwrap() {
			out = append(out, fieldErrors(sub)...)
		}
	default:
		var f *bgp.FieldError
		if !errors.As(err, &f) {
			f = &bgp.FieldError{Problem: err.Error(), Err: bgp.ErrInvalid}
		}
		out = append(out, f)
	}
	return out
}
