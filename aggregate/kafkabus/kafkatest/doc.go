// Package kafkatest runs a Kafka for one test: kfake, which is one in the
// process, or, where GUARDD_TEST_KAFKA_JARS names the folder of its jars (scripts/kafka.sh),
// a real Apache Kafka in a process of its own. Both can be killed and started
// again with what they had stored, and made to hang.
package kafkatest
