package keys

// wire is the form of Rules that scripts read.
type wire struct{ format, data string }

func packRules(r *Rules) wire { return wire{} }
