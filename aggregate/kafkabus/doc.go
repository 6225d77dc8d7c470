// Package kafkabus is the aggregate.Bus over Kafka, by segmentio/kafka-go.
//
// What that client does by itself and guardd must not rely on decides how it is
// used here. It retries no metadata error and has no idempotent producer: an
// error of Publish means "we do not know", and readers drop repeats. Its Reader
// with a group commits offsets of partitions that another member has by now: so
// a ConsumerGroup is used, whose commits fail once their generation is over, with
// a plain Reader per partition. Its groups and readers have been seen to stall
// after a broker came back: a watchdog compares the log's end with what arrives,
// and begins anew. All of it is behind two methods, Publish and Consume.
package kafkabus
