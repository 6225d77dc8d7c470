// Command llm is a worked example: a language model behind a limit of tokens a minute and
// one of streams at once. What an answer will cost nobody knows before it is
// there, so its most is reserved, what is streamed is counted, and the rest is
// given back: also when the caller hangs up.
//
//	go run ./examples/llm
//	curl -N -H 'Authorization: Bearer demo' -d '{"prompt":"tell me of limits","max_tokens":50}' 127.0.0.1:8092/v1/complete
package main
