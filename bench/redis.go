package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// node is one redis-server, without persistence, on a free loopback port.
type node struct {
	addr   string
	client *redis.Client // for looking at it
	cmd    *exec.Cmd
	dir    string
}

func startRedis(args ...string) (*node, error) {
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("redis-server is not installed (Debian: apt-get install redis-server; macOS: brew install redis)")
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "guardd-bench")
	if err != nil {
		return nil, err
	}
	n := &node{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), dir: dir}
	n.cmd = exec.Command(bin, append([]string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port),
		"--save", "", "--appendonly", "no", "--dir", dir, "--logfile", ""}, args...)...)
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := n.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan bool, 1)
	go func() { // read to the end, or the server would block on a full pipe
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.Contains(lines.Text(), "Ready to accept connections") {
				select {
				case ready <- true:
				default:
				}
			}
		}
		close(ready)
	}()
	if !<-ready {
		return nil, errors.New("redis-server ended before it was ready")
	}
	n.client = redis.NewClient(&redis.Options{Addr: n.addr, Protocol: 2, DisableIdentity: true})
	return n, nil
}

func (n *node) stop() {
	n.client.Close()
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
	os.RemoveAll(n.dir)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// info is one field of INFO.
func (n *node) info(section, field string) (string, error) {
	text, err := n.client.Info(context.Background(), section).Result()
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut(text, "\n"+field+":")
	if !ok {
		return "", fmt.Errorf("INFO %s has no %s", section, field)
	}
	v, _, _ := strings.Cut(rest, "\r")
	return v, nil
}

func (n *node) number(section, field string) (float64, error) {
	v, err := n.info(section, field)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(v, 64)
}

// cpu is the processor time that the server has used so far.
func (n *node) cpu() (time.Duration, error) {
	var sum float64
	for _, f := range []string{"used_cpu_user", "used_cpu_sys"} {
		x, err := n.number("cpu", f)
		if err != nil {
			return 0, err
		}
		sum += x
	}
	return time.Duration(sum * float64(time.Second)), nil
}

// flush empties the server before it returns, so that no freeing is left over
// for whoever is measured next.
func (n *node) flush() error { return n.client.FlushAll(context.Background()).Err() }

// cluster is three masters that share all slots.
type cluster []*node

func startCluster() (cluster, error) {
	var c cluster
	for range 3 {
		n, err := startRedis("--cluster-enabled", "yes", "--cluster-node-timeout", "5000")
		if err != nil {
			c.stop()
			return nil, err
		}
		c = append(c, n)
	}
	ctx := context.Background()
	const slots = 16384
	for i, n := range c {
		if err := n.client.ClusterAddSlotsRange(ctx, i*slots/3, (i+1)*slots/3-1).Err(); err != nil {
			c.stop()
			return nil, err
		}
		host, port, _ := net.SplitHostPort(c[0].addr)
		if err := n.client.ClusterMeet(ctx, host, port).Err(); err != nil {
			c.stop()
			return nil, err
		}
	}
	for range 200 { // gossip comes every 100 ms
		up := 0
		for _, n := range c {
			text, _ := n.client.ClusterInfo(ctx).Result()
			if strings.Contains(text, "cluster_state:ok") && strings.Contains(text, "cluster_known_nodes:3") {
				up++
			}
		}
		if up == len(c) {
			return c, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.stop()
	return nil, errors.New("the cluster did not form within 20 seconds")
}

func (c cluster) addrs() (a []string) {
	for _, n := range c {
		a = append(a, n.addr)
	}
	return a
}

func (c cluster) stop() {
	for _, n := range c {
		n.stop()
	}
}

func (c cluster) flush() error {
	for _, n := range c {
		if err := n.flush(); err != nil {
			return err
		}
	}
	return nil
}

func (c cluster) cpu() (sum time.Duration, err error) {
	for _, n := range c {
		d, err := n.cpu()
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}
