package redistest

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/guardd/guardd/keys/keystest/daemon"
)

// Options are what servers are started with.
type Options struct {
	// TLS: they speak nothing else, Cluster bus and replication included.
	TLS bool
	// ACL: the one user that URLs name may do what guardd needs (Commands on
	// keys "gd:*"), and who names no user may do nothing.
	ACL bool
	// Args are given to redis-server as they are ("--maxmemory", "1mb").
	Args []string

	certs   *daemon.Certs
	cluster bool
}

// Commands is all that guardd's user needs to be allowed in Redis's ACL.
const Commands = "+eval +evalsha +script|load +mget +set +xadd +xtrim +xrevrange +pexpire +pttl +time +info +ping +hello +rpush +lpop +llen +lrange +del +hgetall +hset +hdel +sadd +spop +zadd +zcard +zscore +zrangebyscore +zremrangebyscore +zrem"

// ClusterCommands is what it needs in a Cluster beside.
const ClusterCommands = "+cluster|slots +asking"

const (
	user, password           = "guardd", "pass-of-guardd"
	operator, operatorsWords = "operator", "pass-of-operator"
)

func (o *Options) prepare(t testing.TB) {
	t.Helper()
	if o.TLS && o.certs == nil {
		o.certs = daemon.MakeCerts(t)
	}
}

// config is the lines of redis.conf beyond the plain.
func (o *Options) config() string {
	var b strings.Builder
	if o.ACL {
		allowed := Commands
		if o.cluster {
			allowed += " " + ClusterCommands
		}
		fmt.Fprintf(&b, "user default off\nuser %s on >%s ~gd:* -@all %s\n", user, password, allowed)
		fmt.Fprintf(&b, "user %s on >%s ~* &* +@all\n", operator, operatorsWords)
	}
	if o.TLS {
		fmt.Fprintf(&b, "tls-cert-file %s\ntls-key-file %s\ntls-ca-cert-file %s\ntls-auth-clients no\ntls-replication yes\ntls-cluster yes\n",
			o.certs.Cert, o.certs.Key, o.certs.CA)
	}
	return b.String()
}

// url is the address in the form of guardd's --redis flag.
func (o *Options) url(addr string, more url.Values) string {
	u := url.URL{Scheme: "redis", Host: addr, RawQuery: more.Encode()}
	if o.TLS {
		u.Scheme = "rediss"
	}
	if o.ACL {
		u.User = url.UserPassword(user, password)
	}
	return u.String()
}

// operator is who tests look and tamper as.
func (o *Options) operator() (user, password string) {
	if !o.ACL {
		return "", ""
	}
	return operator, operatorsWords
}

func (o *Options) tls() *tls.Config {
	if !o.TLS {
		return nil
	}
	return o.certs.Client()
}
