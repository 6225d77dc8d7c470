// Package soctest starts what a SOC has, for tests: a real rsyslog and a real
// Alertmanager. A test that needs one is skipped where it is not installed; with CI
// or GUARDD_REQUIRE_SOC set it fails, so that a run without them cannot pass for a
// whole one.
package soctest
