package keys

// Fault is why a name or an address cannot be counted: one word of a closed
// set, which callers put beside the field's name.
type Fault string

// The faults.
const (
	FaultEmpty      Fault = "empty"          // nothing, or nothing after normalising
	FaultTooLong    Fault = "too_long"       // over MaxAccount bytes
	FaultControl    Fault = "control"        // NUL or another control character
	FaultUTF8       Fault = "invalid_utf8"   // not UTF-8
	FaultList       Fault = "list"           // several addresses where one is meant
	FaultNotAddress Fault = "not_an_address" // a host name, a number, anything else
)

// Error returns the word.
func (f Fault) Error() string { return string(f) }
