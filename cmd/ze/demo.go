package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/appliance/bgp/speaker"
	"ze.internal/ze/mcp/client"
)

// demoTime is how long the steps of the demonstration may take.
const demoTime = 60 * time.Second

func (c *cli) demoCommand() *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it work: a daemon, a BGP neighbour, and an MCP client that announces a route",
		Long: `See it work. In a temporary directory a daemon starts as in production, a second
BGP speaker plays its neighbour, and an MCP client walks through the usual flow.
Then everything stays up to try things, until Ctrl-C.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.demo(cmd.Context(), once) },
	}
	cmd.Flags().BoolVar(&once, "once", false, "end after the flow; exit 0 only if every step was verified")
	return cmd
}

// Where the demonstration's two BGP speakers live.
var (
	ourAddress       = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	neighbourAddress = netip.AddrFrom4([4]byte{127, 0, 0, 2})
)

const demoConfig = `environment {
    instance { name demo; }
    mcp { enabled true; auth-mode bearer; }
}
bgp {
    router-id 192.0.2.1;
    local { as 64512; }
    listen { ip %[1]s; port %[2]d; }
    peer peer1 {
        description "the neighbour of the demonstration";
        remote { ip %[3]s; port %[4]d; as 64999; }
        local { ip %[1]s; }
        timer { connect-retry 1; }
        family ipv4/unicast;
    }
}
`

func (c *cli) demo(ctx context.Context, once bool) (err error) {
	dir, err := os.MkdirTemp("", "ze-demo-")
	if err != nil {
		return fmt.Errorf("make a place for the demonstration: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ourPort, err := freePort(ourAddress)
	if err != nil {
		return err
	}
	theirPort, err := freePort(neighbourAddress)
	if err != nil {
		return err
	}
	data := filepath.Join(dir, "data")
	made, err := initialize(ctx, initOptions{dir: data, instance: "demo", file: "demo.conf",
		text: fmt.Appendf(nil, demoConfig, ourAddress, ourPort, neighbourAddress, theirPort)})
	if err != nil {
		return err
	}

	log := c.logger().Level(zerolog.WarnLevel)
	neighbour, err := startNeighbour(ctx, ourPort, theirPort, log)
	if err != nil {
		return err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		err = errors.Join(err, neighbour.Stop(stop))
	}()
	any := []netip.AddrPort{netip.AddrPortFrom(ourAddress, 0)}
	app, err := startApp(ctx, appliance.Options{
		DataDir: data, Control: filepath.Join(data, "ze.sock"), LogLevel: "warn", Logger: log,
		Overrides: appliance.Overrides{MCPListen: any, MetricsListen: any},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopApp(app)) }()

	address := map[string]string{}
	for _, l := range app.Addresses() {
		address[l.Name] = l.Address
	}
	url := "http://" + address["mcp"] + "/mcp"
	mcpClient := client.New(url, made.token, "ze demo")
	defer mcpClient.Close()
	flow := &demoFlow{cli: c, mcp: mcpClient, neighbour: neighbour}
	steps, cancel := context.WithTimeout(ctx, demoTime)
	defer cancel()
	if err := flow.run(steps); ctx.Err() != nil {
		return errors.New("the demonstration was interrupted")
	} else if err != nil {
		return fmt.Errorf("the demonstration failed: %w", err)
	}
	if once {
		return nil
	}
	c.printf(demoInvitation, url, made.token, "http://"+address["metrics"]+"/metrics", url, made.token, data, data)
	<-ctx.Done()
	c.printf("\nstopping; %s is removed\n", dir)
	return nil
}

const demoInvitation = `
Everything stays up until Ctrl-C.

  MCP      %s
  token    %s
  metrics  %s

For an MCP host:

  {"mcpServers": {"ze": {"type": "http", "url": "%s",
    "headers": {"Authorization": "Bearer %s"}}}}

Three things to try, from another terminal:

  ze --data %s announce 10.9.0.0/24 next-hop self for 1m
  ze --data %s show bgp rib sent peer peer1
  or ask your assistant: "announce 10.8.0.0/16 to peer1 with community 64512:10, check that it was sent, withdraw it"
`

// startNeighbour starts a second BGP speaker process that plays the peer.
func startNeighbour(ctx context.Context, ourPort, theirPort uint16, log zerolog.Logger) (*speaker.Client, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cfg := bgp.Config{
		RouterID: netip.AddrFrom4([4]byte{192, 0, 2, 2}),
		Local:    bgp.LocalConfig{AS: 64999},
		Listen:   bgp.ListenConfig{IP: neighbourAddress, Port: theirPort},
		Peers: []bgp.PeerConfig{{
			Name: "ze", Remote: bgp.RemoteConfig{IP: ourAddress, Port: ourPort, AS: 64512}, Local: bgp.LocalConfig{IP: neighbourAddress},
			Timer: bgp.TimerConfig{ConnectRetry: 1}, Families: []bgp.FamilyConfig{{Name: bgp.IPv4Unicast}},
		}},
	}
	cfg.SetDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure the neighbour: %w", err)
	}
	n := speaker.New(speaker.Options{
		Path: exe, Args: []string{speakerName}, Logger: log,
		Desired: func(context.Context) (bgp.Config, []bgp.Path, error) { return cfg, nil, nil },
	})
	return n, n.Start(ctx)
}

// demoFlow is the flow of the demonstration: five calls, each verified.
type demoFlow struct {
	*cli
	mcp       *client.Client
	neighbour *speaker.Client
}

const demoPrefix = "10.0.0.0/24"

func (f *demoFlow) run(ctx context.Context) error {
	f.printf("A daemon and its neighbour are running. Waiting for the BGP session …\n")
	if err := f.established(ctx); err != nil {
		return err
	}
	for _, step := range []struct {
		title, tool string
		args        any
		verify      func(ctx context.Context, answer json.RawMessage) error
	}{
		{"1. What can this daemon do?", "ze_reference", nil, f.verifyReference},
		{"2. How are the peers?", "ze_show_bgp", nil, f.verifyPeers},
		{"3. Announce a route.", "ze_announce",
			map[string]any{"origin": "igp", "next-hop": "10.0.0.1", "prefixes": []string{demoPrefix}}, f.verifyAnnounced},
		{"4. Was it sent?", "ze_execute",
			map[string]any{"command": "show bgp rib sent peer peer1 family ipv4/unicast"}, f.verifySent},
		{"5. Take it back.", "ze_withdraw", map[string]any{"prefixes": []string{demoPrefix}}, f.verifyWithdrawn},
	} {
		args, err := json.Marshal(step.args)
		if err != nil {
			return fmt.Errorf("%s: %w", step.tool, err)
		}
		f.printf("\n%s\n> tools/call %s %s\n", step.title, step.tool, orEmpty(args))
		answer, err := f.mcp.Call(ctx, step.tool, step.args)
		if err != nil {
			return fmt.Errorf("%s: %w", step.tool, err)
		}
		if err := step.verify(ctx, answer); err != nil {
			return fmt.Errorf("%s: %w", step.tool, err)
		}
	}
	f.printf("\nEvery step was verified.\n")
	return nil
}

func orEmpty(args []byte) string {
	if string(args) == "null" {
		return "{}"
	}
	return string(args)
}

// established waits until the session with the neighbour carries routes.
func (f *demoFlow) established(ctx context.Context) error {
	for {
		answer, err := f.mcp.Call(ctx, "ze_show_bgp", nil)
		if err != nil {
			return fmt.Errorf("wait for the session: %w", err)
		}
		if f.checkPeers(answer) == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait for the session: %w; the last answer was %s", ctx.Err(), answer)
		}
	}
}

func (f *demoFlow) verifyReference(_ context.Context, answer json.RawMessage) error {
	var ref struct {
		Commands []struct{ Name string } `json:"commands"`
		Tools    []struct{ Name string } `json:"tools"`
	}
	if err := json.Unmarshal(answer, &ref); err != nil {
		return err
	}
	var tools, commands []string
	for _, t := range ref.Tools {
		tools = append(tools, t.Name)
	}
	for _, c := range ref.Commands {
		commands = append(commands, c.Name)
	}
	f.printf("< %d commands: %s\n  %d tools: %s\n", len(commands), strings.Join(commands, ", "), len(tools), strings.Join(tools, ", "))
	if len(commands) == 0 || len(tools) == 0 {
		return errors.New("the reference is empty")
	}
	return nil
}

func (f *demoFlow) verifyPeers(_ context.Context, answer json.RawMessage) error {
	f.show(answer)
	return f.checkPeers(answer)
}

func (f *demoFlow) checkPeers(answer json.RawMessage) error {
	var s struct {
		Peers []struct {
			Name  string `json:"name"`
			State string `json:"state"`
		} `json:"peer"`
	}
	if err := json.Unmarshal(answer, &s); err != nil {
		return err
	}
	if len(s.Peers) != 1 || s.Peers[0].Name != "peer1" || s.Peers[0].State != bgp.StateEstablished {
		return errors.New("the session with peer1 is not established")
	}
	return nil
}

func (f *demoFlow) verifyAnnounced(ctx context.Context, answer json.RawMessage) error {
	f.show(answer)
	var a struct {
		Announced int    `json:"announced"`
		ID        string `json:"id"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return err
	}
	if a.Announced != 1 || a.ID == "" {
		return errors.New("one prefix and an id were expected")
	}
	return f.neighbourHas(ctx, true)
}

func (f *demoFlow) verifySent(_ context.Context, answer json.RawMessage) error {
	f.show(answer)
	var s struct {
		Routes []struct {
			Prefix  string `json:"prefix"`
			NextHop string `json:"next-hop"`
			Origin  string `json:"origin"`
		} `json:"route"`
	}
	if err := json.Unmarshal(answer, &s); err != nil {
		return err
	}
	if len(s.Routes) != 1 || s.Routes[0].Prefix != demoPrefix || s.Routes[0].NextHop != "10.0.0.1" || s.Routes[0].Origin != "igp" {
		return errors.New("the announced route was expected, and nothing else")
	}
	return nil
}

func (f *demoFlow) verifyWithdrawn(ctx context.Context, answer json.RawMessage) error {
	f.show(answer)
	var a struct {
		Withdrawn int `json:"withdrawn"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return err
	}
	if a.Withdrawn != 1 {
		return errors.New("one prefix should have been withdrawn")
	}
	return f.neighbourHas(ctx, false)
}

// neighbourHas asks the neighbour's own table until it holds the route, or no
// longer does.
func (f *demoFlow) neighbourHas(ctx context.Context, want bool) error {
	q := bgp.RIBQuery{Table: bgp.TableReceived, Peer: "ze", Family: bgp.IPv4Unicast, Limit: 10}
	for {
		routes, _, err := f.neighbour.RIB(ctx, q)
		if err != nil {
			return fmt.Errorf("ask the neighbour: %w", err)
		}
		if want == (len(routes) == 1 && routes[0].Prefix.String() == demoPrefix) && (want || len(routes) == 0) {
			if want {
				at := routes[0].Attributes
				f.printf("  The neighbour received %s, next hop %s, origin %s, AS path %d.\n", routes[0].Prefix, at.NextHop, at.Origin, at.ASPath)
			} else {
				f.printf("  The neighbour's table is empty again.\n")
			}
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("ask the neighbour: %w; it has %v", ctx.Err(), routes)
		}
	}
}

func (f *demoFlow) show(answer json.RawMessage) { f.printf("< %s\n", answer) }

func (c *cli) printf(format string, args ...any) { fmt.Fprintf(c.out, format, args...) }

// freePort asks the system for a port of address that nobody uses.
func freePort(address netip.Addr) (uint16, error) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(address, 0)))
	if err != nil {
		return 0, fmt.Errorf("find a free port of %s: %w", address, err)
	}
	port := l.Addr().(*net.TCPAddr).AddrPort().Port()
	return port, l.Close()
}
