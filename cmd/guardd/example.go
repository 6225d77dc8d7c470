package main

import _ "embed"

// exampleConfig documents every key at its default; a test holds it to that.
//
//go:embed guardd.example.yaml
var exampleConfig string
