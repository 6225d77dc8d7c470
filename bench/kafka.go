package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

// serveKafka is kfake on addr, in a process of its own: it can be stopped and
// killed, and its processor time is nobody's here.
func serveKafka(addr string) int {
	_, port, err := net.SplitHostPort(addr)
	var n int
	if err == nil {
		n, err = strconv.Atoi(port)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(n), kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(1),
		kfake.BrokerConfigs(map[string]string{"default.replication.factor": "1"}))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer c.Close()
	fmt.Println("ready", strings.Join(c.ListenAddrs(), " "))
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt, syscall.SIGTERM)
	<-end
	return 0
}

// kafkaProcess is a broker that can be done things to.
type kafkaProcess struct {
	addr string
	cmd  *exec.Cmd
}

func startKafka() (*kafkaProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	k := &kafkaProcess{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	k.cmd = exec.Command(self, "serve-kafka", k.addr)
	said := &tail{}
	k.cmd.Stderr = said
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := k.cmd.Start(); err != nil {
		return nil, err
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); !strings.HasPrefix(line, "ready") {
		k.stop()
		return nil, fmt.Errorf("kfake does not start: %s", said)
	}
	return k, nil
}

// freeze stops the process, which keeps its connections and answers nothing.
func (k *kafkaProcess) freeze() error { return k.cmd.Process.Signal(syscall.SIGSTOP) }

func (k *kafkaProcess) stop() {
	_ = k.cmd.Process.Kill()
	_ = k.cmd.Wait()
}
