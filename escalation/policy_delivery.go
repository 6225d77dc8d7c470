package escalation

// Delivery says how a realm's codes and notices reach the owners of its
// accounts, as data: package delivery gives every field its meaning, judges it,
// and makes the Deliverer.
type Delivery struct {
	// Driver is log, webhook or smtp.
	Driver string `yaml:"driver"`
	// Name is what mails call the sender: "Example Shop". Default: the realm's.
	Name string `yaml:"name,omitempty"`
	// SecretFile holds, for webhook, the signing secrets, one per line (each
	// signs, so that a receiver can change over); for smtp the password.
	SecretFile string `yaml:"secret_file,omitempty"`

	// URL is where webhook posts to.
	URL string `yaml:"url,omitempty"`
	// AllowNetworks are networks (CIDR) that webhook may reach although they
	// are not public. Plain http is spoken within them only.
	AllowNetworks []string `yaml:"allow_networks,omitempty"`

	// Host and Port are the mail server's. Port defaults to 587 with starttls,
	// 465 with tls, 25 with none.
	Host string `yaml:"host,omitempty"`
	Port int    `yaml:"port,omitempty"`
	// TLS is starttls, tls or none; there is no default, since only one of them
	// is right for a server, and falling back to none gives codes away.
	TLS string `yaml:"tls,omitempty"`
	// Username logs in with the password of SecretFile.
	Username string `yaml:"username,omitempty"`
	// From is the sender's mail address.
	From string `yaml:"from,omitempty"`
	// Helo is the name by which the mail server is greeted. Default: the domain
	// of From.
	Helo string `yaml:"helo,omitempty"`
	// Code and Notice are the realm's words for its mails.
	Code   Words `yaml:"code,omitempty"`
	Notice Words `yaml:"notice,omitempty"`
}

// Words are the templates of one kind of mail; what is not given is the
// default's. Text and Subject are of text/template, HTML is of html/template.
type Words struct {
	Subject string `yaml:"subject,omitempty"`
	Text    string `yaml:"text,omitempty"`
	HTML    string `yaml:"html,omitempty"`
}
