package hook

import (
	"net/netip"
	"testing"
)

func TestPublicAddresses(t *testing.T) {
	for addr, want := range map[string]bool{
		"93.184.216.34": true, "1.1.1.1": true, "2606:4700::1111": true, "2a00:1450::1": true, "64:ff9b::101:101": true,
		"::ffff:1.1.1.1": true, "172.32.0.1": true, "100.128.0.1": true,

		"0.0.0.0": false, "0.1.2.3": false, "127.0.0.1": false, "127.9.9.9": false, "10.1.2.3": false, "172.16.0.1": false,
		"172.31.255.255": false, "192.168.0.1": false, "169.254.169.254": false, "169.254.0.1": false, "100.100.100.200": false,
		"192.0.0.192": false, "198.18.0.1": false, "224.0.0.1": false, "240.0.0.1": false, "255.255.255.255": false,
		"::": false, "::1": false, "fe80::1": false, "fc00::1": false, "fd00:ec2::254": false, "fd20:ce::254": false, "ff02::1": false,
		"::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::1": false,
		"2002:7f00:1::1": false, "2001:db8::1": false, "2001::1": false, "fec0::1": false, "::127.0.0.1": false,
	} {
		err := Gate{}.Control("tcp", netip.AddrPortFrom(netip.MustParseAddr(addr), 443).String(), nil)
		if (err == nil) != want {
			t.Errorf("%s: dialled %v, want %v", addr, err == nil, want)
		}
		if (Gate{Plain: true}).Control("tcp", netip.AddrPortFrom(netip.MustParseAddr(addr), 80).String(), nil) == nil {
			t.Errorf("%s: spoken to in plain", addr)
		}
	}
	if (Gate{}).Control("tcp", "[fe80::1%eth0]:443", nil) == nil {
		t.Error("a zone gets past the gate")
	}
}

// TestPublishedSignature is the example that the reference libraries of Standard
// Webhooks test themselves by.
func TestPublishedSignature(t *testing.T) {
	keys := Keys([][]byte{[]byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")}, func(format string, args ...any) { t.Errorf(format, args...) })
	got := Sign(keys, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
