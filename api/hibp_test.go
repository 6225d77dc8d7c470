package api_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/api/browsertest"
)

// asksHIBP is a program of somebody's who uses the npm package hibp: what it
// changes is the host.
const asksHIBP = `import {pwnedPassword, pwnedPasswordRange} from './hibp.mjs';
const [url, ...passwords] = process.argv.slice(2);
const options = {baseUrl: url, addPadding: true, userAgent: 'shop'};
const out = {};
for (const p of passwords) {
  try { out[p] = await pwnedPassword(p, options); } catch (e) { out[p] = 'error'; }
}
out.sha1 = Object.keys(await pwnedPasswordRange('00000', {baseUrl: url})).length;
out.ntlm = Object.keys(await pwnedPasswordRange('00000', {baseUrl: url, mode: 'ntlm'})).length;
console.log(JSON.stringify(out));
`

// TestAPublicClientWorksByChangingTheHost runs the client as published.
func TestAPublicClientWorksByChangingTheHost(t *testing.T) {
	bundle := browsertest.HIBP.File(t, "dist/browser/hibp.module.js")
	s := start(t, api.Config{Guard: allowing(), Breached: api.BreachedConfig{Source: corpora(true), Public: true}})
	dir := t.TempDir()
	for name, text := range map[string]string{"hibp.mjs": string(bundle), "ask.mjs": asksHIBP} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("node", "ask.mjs", s.url, "password", "Grüße aus Köln", "no such range")
	cmd.Dir = dir
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, text, fmt.Sprint(err.(*exec.ExitError).Stderr))
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	want := map[string]any{"password": 10_434_004.0, "Grüße aus Köln": 3.0, "no such range": "error", "sha1": got["sha1"], "ntlm": got["ntlm"]}
	if !reflect.DeepEqual(got, want) || got["sha1"].(float64) < 800 || got["ntlm"].(float64) < 700 || got["sha1"] == got["ntlm"] {
		t.Errorf("%s", text)
	}
}
