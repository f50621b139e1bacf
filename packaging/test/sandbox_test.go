package test

import (
	"encoding/json"
	"strings"
)

// program is what programs on Node do that a sandbox may deny: they compile at run
// time, listen, start processes and look around.
const program = `
const child = require('child_process'), fs = require('fs'), net = require('net'), os = require('os');
const add = new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 7, 1, 96, 2, 127, 127, 1, 127,
	3, 2, 1, 0, 7, 7, 1, 3, 97, 100, 100, 0, 0, 10, 9, 1, 7, 0, 32, 0, 32, 1, 106, 11]));
const denied = ['/usr/life', '/etc/ze/credentials/mcp.token'].map((file) => {
	try { fs.writeFileSync(file, ''); } catch (e) { return e.code; }
	return 'nothing';
}).join(' ');
const server = net.createServer((c) => c.end('heard')).listen(0, '127.0.0.1', () => {
	net.connect(server.address().port, '127.0.0.1').on('data', (data) => {
		server.close();
		fs.writeFileSync('/var/lib/ze/life.json', JSON.stringify({
			User: os.userInfo().username,
			Compiled: new WebAssembly.Instance(add).exports.add(40, 2),
			Listened: data.toString(),
			Child: child.execFileSync(process.execPath, ['-p', '6 * 7']).toString(),
			Processors: os.cpus().length,
			Loopback: os.networkInterfaces().lo[0].address,
			Denied: denied,
		}));
	});
});
`

// node: a real program on Node runs in the unit's sandbox, as children of the
// daemon do, and finds what it needs.
func node() string {
	type seen struct {
		User             string
		Compiled         int
		Listened, Child  string
		Processors       int
		Loopback, Denied string
	}
	const script, output = "/run/life.js", stateDir + "/life.json"
	write(script, program, 0o644)
	defer sh("rm -f " + output)
	defer drop("Service", "ExecStartPre=/usr/bin/node "+script)()
	sh("rm -rf /etc/ze/credentials; systemctl restart ze") // systemd makes it anew
	var got seen
	if err := json.Unmarshal([]byte(sh("cat "+output)), &got); err != nil {
		failf("%v", err)
	}
	same("what it saw", got, seen{
		User: "ze", Compiled: 42, Listened: "heard", Child: "42\n",
		Processors: strings.Count(sh("grep ^cpu[0-9] /proc/stat"), "\n") + 1, Loopback: "127.0.0.1", Denied: "EROFS EROFS",
	})
	return sh("node --version")
}
