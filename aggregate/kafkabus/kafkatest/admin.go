package kafkatest

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// Client calls f with a client of the server, which is another than guardd's: it
// shares no mistake with it. Within 10 s.
func (s *Server) Client(f func(context.Context, *kgo.Client) error, o ...kgo.Opt) error {
	o = append(o, kgo.SeedBrokers(s.Addr()), kgo.DialTimeout(2*time.Second), kgo.RequestRetries(1))
	if s.o.Secure {
		o = append(o, kgo.DialTLSConfig(s.TLS()), kgo.SASL(plain.Auth{User: User, Pass: Password}.AsMechanism()))
	}
	c, err := kgo.NewClient(o...)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return f(ctx, c)
}

// Version is what the broker says on the wire: the release whose requests it
// knows, and the feature level of its metadata, which only a real one has.
func (s *Server) Version() (v string, err error) {
	err = s.Client(func(ctx context.Context, c *kgo.Client) error {
		ask := kmsg.NewPtrApiVersionsRequest()
		ask.ClientSoftwareName, ask.ClientSoftwareVersion = "kafkatest", "1"
		r, err := ask.RequestWith(ctx, c)
		if err != nil {
			return err
		}
		v = "knows the requests of " + kversion.FromApiVersionsResponse(r).VersionGuess()
		for _, f := range r.FinalizedFeatures {
			if f.Name == "metadata.version" {
				v += fmt.Sprintf(", metadata.version %d", f.MaxVersionLevel)
			}
		}
		return nil
	})
	return v, err
}

// AddPartitions makes a topic have n.
func (s *Server) AddPartitions(topic string, n int) error {
	return s.Client(func(ctx context.Context, c *kgo.Client) error {
		ask := kmsg.NewPtrCreatePartitionsRequest()
		ask.TimeoutMillis = 5000
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = topic, int32(n)
		ask.Topics = append(ask.Topics, t)
		r, err := ask.RequestWith(ctx, c)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(r.Topics[0].ErrorCode)
	})
}

// DeleteTopics deletes topics.
func (s *Server) DeleteTopics(topics ...string) error {
	return s.Client(func(ctx context.Context, c *kgo.Client) error {
		ask := kmsg.NewPtrDeleteTopicsRequest()
		ask.TimeoutMillis, ask.TopicNames = 5000, topics
		for i := range topics {
			t := kmsg.NewDeleteTopicsRequestTopic()
			t.Topic = &topics[i]
			ask.Topics = append(ask.Topics, t)
		}
		r, err := ask.RequestWith(ctx, c)
		if err != nil {
			return err
		}
		for _, t := range r.Topics {
			if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
				return fmt.Errorf("%s: %w", *t.Topic, err)
			}
		}
		return nil
	})
}

// Committed is a group's position in each partition of a topic.
func (s *Server) Committed(group, topic string) (at map[int]int64, err error) {
	at = map[int]int64{}
	err = s.Client(func(ctx context.Context, c *kgo.Client) error {
		ask := kmsg.NewPtrOffsetFetchRequest()
		ask.Group = group
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = group
		ask.Groups = append(ask.Groups, g)
		r, err := ask.RequestWith(ctx, c)
		if err != nil {
			return err
		}
		for _, g := range r.Groups {
			for _, t := range g.Topics {
				for _, p := range t.Partitions {
					if t.Topic == topic && p.Offset >= 0 {
						at[int(p.Partition)] = p.Offset
					}
				}
			}
		}
		return nil
	})
	return at, err
}

// LimitMessages has a topic take at most n bytes at once.
func (s *Server) LimitMessages(topic string, n int) error {
	return s.Client(func(ctx context.Context, c *kgo.Client) error {
		ask := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
		one := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		value := strconv.Itoa(n)
		one.Name, one.Value = "max.message.bytes", &value
		r.Configs = append(r.Configs, one)
		ask.Resources = append(ask.Resources, r)
		answer, err := ask.RequestWith(ctx, c)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(answer.Resources[0].ErrorCode)
	})
}
