package daemon

import "net"

// FreePort is a loopback port that nobody has for the moment. Somebody may take
// it before its finder does: who starts a server tries again then.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
