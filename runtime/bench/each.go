package main

import (
	"context"
	"sync"
	"sync/atomic"
)

// askEach asks once for each of n keys, by 64 callers, until ctx ends. It returns the error of one of those
// that failed.
func askEach(ctx context.Context, ask askFunc, n int, key func(int) string) error {
	var next atomic.Int64
	errs := make(chan error, 64)
	var all sync.WaitGroup
	for range cap(errs) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if _, err := ask(context.Background(), key(i)); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}
