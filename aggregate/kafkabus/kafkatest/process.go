package kafkatest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/guardd/guardd/keys/keystest/daemon"
)

// process is a real Apache Kafka.
type process struct {
	dir        string
	properties string
	cmd        *exec.Cmd
	ended      chan error // receives once, when cmd has ended
}

// java are what makes a broker small and quick to start: it serves one test.
var java = []string{"-Xms256m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}

// newProcess lays out a broker's folder.
func newProcess(s *Server, dir string) (*process, error) {
	controller, err := daemon.FreePort()
	if err != nil {
		return nil, err
	}
	p := &process{dir: dir, properties: filepath.Join(dir, "server.properties")}
	scheme, secure := "PLAINTEXT", ""
	format := []string{"kafka.tools.StorageTool", "format", "--standalone", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", p.properties}
	if s.o.Secure {
		scheme = "SASL_SSL"
		if secure, err = secureLines(s.certs, dir); err != nil {
			return nil, err
		}
		for _, m := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			format = append(format, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", m, User, Password))
		}
	}
	text := fmt.Sprintf(`process.roles=broker,controller
node.id=1
listeners=%[1]s://127.0.0.1:%[2]d,CONTROLLER://127.0.0.1:%[3]d
advertised.listeners=%[1]s://127.0.0.1:%[2]d
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:%[3]d
inter.broker.listener.name=%[1]s
log.dirs=%[4]s
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
# A broker that was killed is let in again when its session has ended. One that is
# slow because the machine is must not lose its partitions.
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=500
num.network.threads=1
num.io.threads=2
log.segment.bytes=16777216
auto.create.topics.enable=false
%[5]s`, scheme, s.port, controller, filepath.Join(dir, "data"), secure)
	if err := os.WriteFile(p.properties, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if out, err := p.java(format...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("formatting its storage: %w\n%s", err, out)
	}
	return p, nil
}

// secureLines have the broker speak TLS to users, by every mechanism, and to
// itself as one of them.
func secureLines(certs *daemon.Certs, dir string) (string, error) {
	var pem []byte
	for _, file := range []string{certs.Key, certs.Cert} {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		pem = append(pem, text...)
	}
	store := filepath.Join(dir, "keystore.pem")
	if err := os.WriteFile(store, pem, 0o600); err != nil {
		return "", err
	}
	user := fmt.Sprintf(`username="%s" password="%s"`, User, Password)
	return strings.Join([]string{
		"ssl.keystore.type=PEM", "ssl.keystore.location=" + store,
		"ssl.truststore.type=PEM", "ssl.truststore.location=" + certs.CA,
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512", "sasl.mechanism.inter.broker.protocol=PLAIN",
		fmt.Sprintf(`listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required %s user_%s="%s";`, user, User, Password),
		"listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required " + user + ";",
		"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required " + user + ";",
	}, "\n") + "\n", nil
}

func (p *process) java(args ...string) *exec.Cmd {
	all := append(append([]string{}, java...), "-cp", filepath.Join(jars(), "*"))
	cmd := exec.Command("java", append(all, args...)...)
	cmd.SysProcAttr = daemon.DieWithParent()
	return cmd
}

// Start is broker's.
func (p *process) Start() error {
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := p.java("kafka.Kafka", p.properties)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.ended = cmd, make(chan error, 1)
	go func() { p.ended <- cmd.Wait() }()
	return nil
}

// errKilled is of a broker that Kill has ended.
var errKilled = errors.New("the broker was killed")

// Alive says why a broker that was started has ended, with its log.
func (p *process) Alive() error {
	if p.cmd == nil {
		return errKilled
	}
	select {
	case err := <-p.ended:
		p.ended <- err
		log, _ := os.ReadFile(filepath.Join(p.dir, "log")) // best effort: the error says enough to go on
		return fmt.Errorf("%w\n%s", errors.Join(errors.New("the broker ended"), err), log)
	default:
		return nil
	}
}

// Kill is broker's: SIGKILL.
func (p *process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.ended
	p.cmd = nil
}

// Pause is broker's: SIGSTOP. It returns when all threads stand: until one of them
// has had its turn, on a machine with other work in a while, they go on.
func (p *process) Pause() {
	p.signal(syscall.SIGSTOP)
	for p.Alive() == nil && !p.stopped() {
		time.Sleep(10 * time.Millisecond)
	}
}

// stopped tells whether all threads stand; where the system does not say, that
// they do.
func (p *process) stopped() bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid)) // the pattern is good
	for _, file := range threads {
		text, err := os.ReadFile(file)
		// The state follows the name, which stands in brackets.
		if _, state, ok := strings.Cut(string(text), ") "); err == nil && (!ok || !strings.HasPrefix(state, "T")) {
			return false
		}
	}
	return true
}

// Resume is broker's: SIGCONT.
func (p *process) Resume() { p.signal(syscall.SIGCONT) }

func (p *process) signal(s os.Signal) {
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(s) // it may have ended by itself
	}
}
