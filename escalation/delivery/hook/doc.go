// Package hook posts to receivers that an operator has named, signed as Standard
// Webhooks 1.0.0 has it, and dials no address that the operator has not meant.
package hook
