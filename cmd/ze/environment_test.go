package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCredentials: a credential makes a setting that no variable makes; of one
// that names a file it is that file.
func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"ze.mcp.token": "from-the-credential\n", "ze.log.level": "warn", "ze.mcp.tls.cert": "a certificate", "ze.mcp.tls.key": "a key",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	credential := func(name string) (string, bool) {
		path := filepath.Join(dir, name)
		_, err := os.Stat(path)
		return path, err == nil
	}
	e, warnings, err := readEnvironment([]string{"ZE_LOG_LEVEL=error", "HOME=/"}, credential)
	if err != nil || len(warnings) > 0 {
		t.Fatal(warnings, err)
	}
	if e.mcpToken != "from-the-credential" || e.logLevel != "error" {
		t.Errorf("%+v", e)
	}
	if e.mcpCert != filepath.Join(dir, "ze.mcp.tls.cert") || e.mcpKey != filepath.Join(dir, "ze.mcp.tls.key") {
		t.Errorf("%+v", e)
	}
	if err := os.WriteFile(filepath.Join(dir, "ze.mcp.listen"), []byte("somewhere"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readEnvironment(nil, credential); err == nil || !strings.Contains(err.Error(), "credential ze.mcp.listen") {
		t.Error(err)
	}
}
