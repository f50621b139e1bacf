package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/place"
	"ze.internal/ze/mcp/client"
)

// options say where the daemon is.
type options struct {
	socket, data string
	url, token   string
}

// orFrom returns the options with the environment's where none is given. A flag
// says where the daemon is, whatever the environment says of other places.
func (o options) orFrom(environment []string) options {
	set := map[string]string{}
	for _, v := range environment {
		name, value, _ := strings.Cut(v, "=")
		set[strings.ToLower(name)] = value
	}
	o.token = set["ze_token"]
	if o.socket == "" && o.data == "" && o.url == "" {
		o.url, o.socket, o.data = set["ze_mcp_url"], set["ze_control_socket"], set["ze_data_dir"]
	}
	return o
}

// upstream is the daemon.
type upstream struct {
	client *client.Client
	socket string // "" if it is reached by url
	url    string
	token  bool
}

func newUpstream(o options, log zerolog.Logger) (*upstream, error) {
	if o.url == "" {
		socket := o.socket
		if socket == "" {
			socket = place.Socket(o.data)
		}
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}
		c := client.Open(client.Options{URL: "http://localhost/mcp", Transport: &http.Transport{DialContext: dial}})
		return &upstream{client: c, socket: socket}, nil
	}
	u, err := url.Parse(o.url)
	switch {
	case err != nil:
		return nil, fmt.Errorf("ZE_MCP_URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, fmt.Errorf("ZE_MCP_URL: %q is not http://HOST:PORT/mcp or https://HOST/mcp", u.Redacted())
	case u.User != nil:
		return nil, errors.New("ZE_MCP_URL has a user or password in it; the token belongs into ZE_TOKEN")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/mcp"
	}
	if o.token != "" && u.Scheme == "http" && !isLoopback(u.Hostname()) {
		log.Warn().Str("url", u.String()).Msg("the token crosses a network in the clear; use https")
	}
	return &upstream{client: client.Open(client.Options{URL: u.String(), Token: o.token}), url: u.String(), token: o.token != ""}, nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Exchange implements stdio.Upstream.
func (u *upstream) Exchange(ctx context.Context, request []byte, each func(json.RawMessage) error) error {
	err := u.client.Exchange(ctx, request, each)
	if err == nil {
		return nil
	}
	return u.explain(err)
}

// explain says what is wrong and what to do, for whoever reads an answer.
func (u *upstream) explain(err error) error {
	var status *client.StatusError
	if errors.As(err, &status) {
		return u.explainStatus(status)
	}
	place := u.url
	if u.socket != "" {
		place = u.socket
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED) && u.socket != "":
		return fmt.Errorf("no ze daemon answers on %s: start it with \"ze start\", or \"systemctl start ze\"; "+
			"if it runs elsewhere, set ZE_CONTROL_SOCKET, or ZE_MCP_URL and ZE_TOKEN, where ze-mcp is registered; then call again", place)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("this user may not open %s: add the user to the group that owns it, usually ze, and log in again; "+
			"or set ZE_MCP_URL and ZE_TOKEN where ze-mcp is registered", place)
	case errors.Is(err, client.ErrBroken):
		return fmt.Errorf("the ze daemon on %s ended before it had answered; what was asked may have been done: look before calling again", place)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no ze daemon answers at %s: start it there with MCP enabled, or correct ZE_MCP_URL where ze-mcp is registered; then call again", place)
	}
	return fmt.Errorf("reach the ze daemon at %s: %w; see that it runs there, or correct ZE_MCP_URL or ZE_CONTROL_SOCKET where ze-mcp is registered; then call again", place, err)
}

// explainStatus is explain for an answer that is no response.
func (u *upstream) explainStatus(e *client.StatusError) error {
	switch {
	case e.Status == http.StatusUnauthorized && !u.token:
		return fmt.Errorf("%s wants a token: make one with \"ze token create NAME\" and set it as ZE_TOKEN where ze-mcp is registered", u.url)
	case e.Status == http.StatusUnauthorized:
		return fmt.Errorf("%s refuses the token (%s): make another with \"ze token create NAME\" and set it as ZE_TOKEN where ze-mcp is registered", u.url, e.Body)
	case e.Status == http.StatusNotFound && u.url != "":
		return fmt.Errorf("there is no MCP at %s; set ZE_MCP_URL to http://HOST:PORT/mcp", u.url)
	}
	return fmt.Errorf("the ze daemon answered %d %s: %s", e.Status, http.StatusText(e.Status), e.Body)
}
