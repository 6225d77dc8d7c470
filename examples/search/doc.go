// Command search is a worked example: a search backend whose requests cost from 1 to 1000
// milliseconds of a worker, and how it fares behind limits that count requests,
// behind limits that count what they cost and how many dear ones are under way,
// and behind those and load shedding. All three are guardd's own, in virtual time:
//
//	go run ./examples/search              # what became of everybody, scene by scene
//	go run ./examples/search -svg F.svg   # and draws it
package main
