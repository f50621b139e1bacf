package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"ze.internal/ze/mcp/client"
)

// loadOptions are the flags of ze-test load.
type loadOptions struct {
	target
	connections  int
	duration     time.Duration
	count        int64
	rate         float64
	tool, args   string
	method, body string
	slow         int
	json         bool
}

func loadCommand() *cobra.Command {
	var o loadOptions
	cmd := &cobra.Command{
		Use:   "load (--port N | --url URL)",
		Short: "Put load on an MCP server and measure how it answers",
		Long: `Put load on an MCP server and measure how it answers.

Each connection sends its next request when the last is answered, or, with
--rate, at fixed times: then a latency counts from the time at which the request
was due, so that a server that stalls cannot hide it. Every request that is not
answered with success is an error, and any error makes the exit code 1.

With --slow that many more connections are opened first and kept busy with as
little as a server lets pass: half send their header, half their body, one octet
a second. One that the server closes is opened again about ten seconds later.

  ze-test load --port 8080 --tool ze_show_bgp --connections 16 --duration 30s
  ze-test load --port 8080 --method tools/list --count 10000
  ze-test load --port 8080 --slow 10000 --rate 20 --duration 60s`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runLoad(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	o.flags(cmd)
	f := cmd.Flags()
	f.IntVar(&o.connections, "connections", 8, "connections that send requests")
	f.DurationVar(&o.duration, "duration", 10*time.Second, "how long to send")
	f.Int64Var(&o.count, "count", 0, "how many requests to send, instead of --duration")
	f.Float64Var(&o.rate, "rate", 0, "requests a second over all connections; 0: as many as are answered")
	f.StringVar(&o.tool, "tool", "", "tool to call; default "+executeTool+` with "show version"`)
	f.StringVar(&o.args, "arguments", "", "the tool's arguments, a JSON object")
	f.StringVar(&o.method, "method", "", "method to send instead of tools/call")
	f.StringVar(&o.body, "params", "", "the method's params, a JSON object")
	f.IntVar(&o.slow, "slow", 0, "slow connections beside the others")
	f.BoolVar(&o.json, "json", false, "print the result as JSON")
	cmd.MarkFlagsMutuallyExclusive("duration", "count")
	cmd.MarkFlagsMutuallyExclusive("tool", "method")
	return cmd
}

// request returns what each request is: it fails if it was not answered with success.
func (o *loadOptions) request() (func(ctx context.Context, c *client.Client) error, error) {
	object := func(flag, text string) (map[string]any, error) {
		if text == "" {
			return nil, nil
		}
		var v map[string]any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			return nil, usagef("--%s: no JSON object: %w", flag, err)
		}
		return v, nil
	}
	params, err := object("params", o.body)
	if err != nil {
		return nil, err
	}
	args, err := object("arguments", o.args)
	if err != nil {
		return nil, err
	}
	switch {
	case params != nil && o.method == "":
		return nil, usagef("--params goes with --method; the arguments of a tool are --arguments")
	case args != nil && o.tool == "":
		return nil, usagef("--arguments goes with --tool")
	case o.method != "":
		return func(ctx context.Context, c *client.Client) error {
			m, err := c.Message(o.method, params)
			if err != nil {
				return err
			}
			a, err := c.Send(ctx, m)
			switch {
			case err != nil:
				return err
			case a.Error != nil:
				return a.Error
			case a.Result == nil:
				return &client.StatusError{Status: a.Status}
			}
			return nil
		}, nil
	}
	tool := o.tool
	switch {
	case tool == "":
		tool, args = executeTool, map[string]any{"command": "show version"}
	case args == nil:
		args = map[string]any{}
	}
	return func(ctx context.Context, c *client.Client) error {
		_, err := c.Call(ctx, tool, args)
		return err
	}, nil
}

// measured is what one connection saw.
type measured struct {
	took   []time.Duration // of each request answered with success
	errors map[string]int  // by kind
}

// runLoad sends the load and prints what it measured.
func runLoad(ctx context.Context, o loadOptions, out io.Writer) error {
	if err := o.complete(); err != nil {
		return err
	}
	if o.connections < 1 || o.count < 0 || o.duration <= 0 || o.rate < 0 || o.slow < 0 {
		return usagef("--connections and --duration must be more than nothing, --count, --rate and --slow not less")
	}
	send, err := o.request()
	if err != nil {
		return err
	}
	host, secure := o.host()
	tlsConfig, err := o.tls()
	if err != nil {
		return err
	}
	crowd := newCrowd(host, secure, tlsConfig)
	if o.slow > 0 {
		stop := crowd.start(ctx, o.slow)
		defer stop()
	}
	all, took, err := o.measure(ctx, send)
	if err != nil {
		return err
	}
	r := summarize(all, took)
	if o.slow > 0 {
		r.Slow = crowd.report()
	}
	if err := r.print(out, o.json); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case r.Failed > 0:
		return fmt.Errorf("%d of %d requests failed", r.Failed, r.Failed+r.Requests)
	}
	return nil
}

// measure sends requests from every connection until the count or the time is
// reached.
func (o *loadOptions) measure(ctx context.Context, send func(context.Context, *client.Client) error) ([]measured, time.Duration, error) {
	all := make([]measured, o.connections)
	start := time.Now()
	var next atomic.Int64 // number of the next request
	var wg sync.WaitGroup
	for i := range all {
		// Of its own each, so that there are as many connections as was said.
		transport, err := o.transport()
		if err != nil {
			return nil, 0, err
		}
		m := &all[i]
		m.errors = map[string]int{}
		c := client.Open(client.Options{URL: o.address, Token: o.token, Name: "ze-test", Transport: transport})
		wg.Go(func() {
			defer c.Close()
			for ctx.Err() == nil {
				n := next.Add(1) - 1
				due := time.Now()
				if o.rate > 0 {
					due = start.Add(time.Duration(float64(n) / o.rate * float64(time.Second)))
				}
				if o.count > 0 && n >= o.count || o.count == 0 && due.Sub(start) >= o.duration || sleep(ctx, time.Until(due)) != nil {
					return
				}
				err := send(ctx, c)
				switch {
				case ctx.Err() != nil:
					return
				case err != nil:
					m.errors[errorKind(err)]++
				default:
					m.took = append(m.took, time.Since(due))
				}
			}
		})
	}
	wg.Wait()
	return all, time.Since(start), nil
}

// errorKind sorts errors.
func errorKind(err error) string {
	var (
		rpc    *client.RPCError
		status *client.StatusError
		tool   *client.ToolError
		op     *net.OpError
	)
	switch {
	case errors.As(err, &rpc):
		return fmt.Sprintf("status %d, error %d", rpc.Status, rpc.Code)
	case errors.As(err, &status):
		return fmt.Sprint("status ", status.Status)
	case errors.As(err, &tool):
		var e struct {
			Code string `json:"code"`
		}
		if json.Unmarshal([]byte(tool.Text), &e) == nil && e.Code != "" {
			return "tool error " + e.Code
		}
		return "tool error"
	case errors.As(err, &op):
		return "network: " + op.Op
	}
	return "network"
}

// loadReport is what was measured.
type loadReport struct {
	Requests int64          `json:"requests"` // answered with success
	Failed   int64          `json:"failed"`
	Seconds  float64        `json:"seconds"`
	Rate     float64        `json:"requests-per-second"`
	Latency  *latencies     `json:"latency-milliseconds,omitempty"`
	Errors   map[string]int `json:"errors,omitempty"`
	Slow     *crowdReport   `json:"slow,omitempty"`
}

// latencies are percentiles in milliseconds.
type latencies struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func summarize(all []measured, took time.Duration) loadReport {
	r := loadReport{Seconds: took.Seconds(), Errors: map[string]int{}}
	var sorted []time.Duration
	for _, m := range all {
		sorted = append(sorted, m.took...)
		for kind, n := range m.errors {
			r.Errors[kind] += n
			r.Failed += int64(n)
		}
	}
	r.Requests = int64(len(sorted))
	r.Rate = float64(r.Requests) / r.Seconds
	if len(sorted) > 0 {
		slices.Sort(sorted)
		at := func(part float64) float64 {
			i := min(int(part*float64(len(sorted))), len(sorted)-1)
			return float64(sorted[i].Microseconds()) / 1000
		}
		r.Latency = &latencies{at(0.50), at(0.90), at(0.99), at(1)}
	}
	return r
}

func (r *loadReport) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "requests  %d in %.1f s, %.0f/s\n", r.Requests, r.Seconds, r.Rate)
	if l := r.Latency; l != nil {
		fmt.Fprintf(&b, "latency   p50 %.2f ms, p90 %.2f ms, p99 %.2f ms, max %.2f ms\n", l.P50, l.P90, l.P99, l.Max)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(&b, "failed    %d: %s\n", r.Errors[kind], kind)
	}
	if s := r.Slow; s != nil {
		fmt.Fprintf(&b, "slow      %d connections: %d open, closed %d times, refused %d times\n", s.Connections, s.Open, s.Closed, s.Refused)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
