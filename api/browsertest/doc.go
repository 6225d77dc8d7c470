// Package browsertest drives a real Chromium for tests, as a person drives it:
// by keys, at a phone's width, seeing what is on the page.
//
// Where chromium or a package of npm is missing a test is skipped, and fails
// with CI or GUARDD_REQUIRE_CHROMIUM set.
package browsertest
