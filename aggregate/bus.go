package aggregate

import (
	"context"
	"time"
)

// Topic is what a message is about. A Bus may know it under a longer name.
type Topic string

// The topics.
const (
	TopicEvents   Topic = "events"   // every Event
	TopicFindings Topic = "findings" // what was found in them
	TopicDead     Topic = "dead"     // what could not be read, with the reason
)

// Topics lists all of them.
var Topics = []Topic{TopicEvents, TopicFindings, TopicDead}

// Message is one message of a topic. Key decides its partition: messages of
// one key have one order.
type Message struct {
	Key   string // the realm
	Value []byte
	// Reason is of dead letters: why the message could not be read.
	Reason string

	// The rest is set on reading. High is the offset after the partition's last
	// message as far as the bus knew when it gave this one out: while Offset+1 is
	// less, the reader is behind, as after a restart. Time is when it was
	// published, by the bus' clock.
	Partition int
	Offset    int64
	High      int64
	Time      time.Time
}

// Bus carries messages. Implementations are safe for concurrent use; the suite
// in aggregatetest says what they have in common.
type Bus interface {
	// Publish writes all messages, or returns an error, which means "we do not
	// know": some may have been written. Repeat it; readers drop what they have
	// seen by Event.ID. It keeps nothing of msgs.
	Publish(ctx context.Context, topic Topic, msgs []Message) error
	// Consume reads a topic as a member of group until ctx ends, and then returns
	// nil; an error means that it cannot go on. Every partition is read by one
	// member at a time, in order, from the group's position, or from the oldest
	// message where it has none. open is called when a partition comes to this
	// member, and its handler is closed when the partition goes. Handlers of
	// different partitions are called concurrently, one handler never is.
	// A handler's error that is ErrPoison sends the message to TopicDead; any
	// other has the partition read again from the group's position after a pause,
	// by a new handler.
	Consume(ctx context.Context, topic Topic, group string, open func(partition int) Handler) error
	// Close ends what the bus runs. Call it after the last Publish and Consume
	// have returned.
	Close() error
}

// Handler reads one partition.
type Handler interface {
	// Handle takes one message. It must not keep m.Value.
	Handle(m Message) error
	// Behind is the offset of the oldest message that a successor needs to
	// rebuild what this handler knows; the group's position moves no further. It
	// is called by other goroutines, too.
	Behind() int64
	// Close is called once, after the last Handle.
	Close()
}
