package runtime

import "slices"

// shards returns which shards of its key a request looks at: two picked at random, the same two for all
// requests of the batch, or all of them if two were not enough or cannot tell.
func (b *Batch) shards(q Request) []int {
	n := max(1, q.Policy.Shards)
	if n > 2 && q.takes() && !b.wide[wholeRow(q)] {
		first, second := pick(hash(q.Policy.Name, q.Key)^b.seed, n)
		return []int{first, second}
	}
	return upTo[:n]
}

// wholeRow stands for all shards of a request's key.
func wholeRow(q Request) Row { return Row{q.Policy.Name, q.Key, -1} }

// widen has all shards of a request's key be looked at.
func (b *Batch) widen(q Request) {
	if b.wide == nil {
		b.wide = map[Row]bool{}
	}
	b.wide[wholeRow(q)] = true
}

// upTo holds the numbers of all shards that a limit can have.
var upTo = func() (all [MaxShards]int) {
	for i := range all {
		all[i] = i
	}
	return all
}()

// step answers a request from the rows of its key.
func (b *Batch) step(whole Rule, q Request, now int64) (d Decision, ok bool, err error) {
	if q.Policy.Shards <= 1 {
		i := b.find(q, 0)
		next, d, err := whole.Step(b.states[i], now, q)
		b.set(i, next)
		return d, true, err
	}
	numbers := b.shards(q)
	s := b.view(whole, q, numbers)
	if d, ok, err = s.answer(whole, q.Policy.Shards, now, q); !ok {
		b.widen(q)
		return Decision{}, false, nil
	}
	for i, n := range numbers {
		b.set(b.find(q, n), s.states[i])
	}
	return d, true, err
}

// view returns the shards of a request's key with the given numbers.
func (b *Batch) view(whole Rule, q Request, numbers []int) shards {
	s := shards{make([]Rule, len(numbers)), make([]State, len(numbers))}
	for i, n := range numbers {
		s.rules[i] = whole.Shard(n, q.Policy.Shards)
		s.states[i] = b.states[b.find(q, n)]
	}
	return s
}

// find returns where the row of a shard stands in Rows.
func (b *Batch) find(q Request, shard int) int {
	i, _ := slices.BinarySearchFunc(b.rows, Row{q.Policy.Name, q.Key, shard}, Row.Compare)
	return i
}

// set changes the state of a row, until restore changes it back.
func (b *Batch) set(i int, s State) {
	if b.states[i] != s {
		b.undo = append(b.undo, undone{i, b.states[i]})
		b.states[i] = s
	}
}

// restore gives the rows that match the state that they had before the call.
func (b *Batch) restore(match func(Row) bool) {
	for _, u := range slices.Backward(b.undo) {
		if match(b.rows[u.row]) {
			b.states[u.row] = u.state
		}
	}
}
