package sim

import (
	"container/heap"
	"net/netip"
	"slices"
)

// login is one attempt that somebody wants to make.
type login struct {
	at       int64
	account  string
	ip       netip.Addr
	agent    string
	password string
	breached bool
	unknown  bool // there is no such account
	right    bool
	who      *person // with a device at home, if device
	device   bool    // it is used
	attack   bool    // a guess
	scan     bool    // one of the background's
	own      bool    // the attacker's own sign-in
	hoard    bool    // whose outcome is reported late
	stranger bool    // of honest ones: unknown device, unfamiliar place
	victim   bool    // the owner of an account that is attacked
	tries    int     // before this one
	app      bool    // does not come back when asked
	proof    string  // of a wait
}

// queue is what is to happen, by time.
type queue struct{ list []*login }

func (q *queue) add(l *login) { q.list = append(q.list, l) }

func (q *queue) sort() {
	slices.SortStableFunc(q.list, func(a, b *login) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
}

// queueByTime are logins that are made while others are: the earliest on top.
type queueByTime struct{ heap []*login }

func (q *queueByTime) Len() int           { return len(q.heap) }
func (q *queueByTime) Less(i, j int) bool { return q.heap[i].at < q.heap[j].at }
func (q *queueByTime) Swap(i, j int)      { q.heap[i], q.heap[j] = q.heap[j], q.heap[i] }
func (q *queueByTime) Push(l any)         { q.heap = append(q.heap, l.(*login)) }
func (q *queueByTime) Pop() any {
	l := q.heap[len(q.heap)-1]
	q.heap = q.heap[:len(q.heap)-1]
	return l
}

func (q *queueByTime) add(l *login) { heap.Push(q, l) }

// before takes the next of both: of other from i on.
func (q *queueByTime) before(other *queue, i *int) *login {
	if *i >= len(other.list) || q.Len() > 0 && q.heap[0].at < other.list[*i].at {
		return heap.Pop(q).(*login)
	}
	*i++
	return other.list[*i-1]
}
