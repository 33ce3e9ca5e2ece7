package main

import (
	"context"
	"fmt"
	"os"
	"reflect"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// exercise calls every method of a generated Limits with zero keys, and wants the answer of a policy of its
// own.
func exercise(limits any, policies []*runtime.Policy) {
	left := map[string]*runtime.Policy{}
	for _, p := range policies {
		left[p.Name] = p
		must(p.Validate())
	}
	methods := reflect.ValueOf(limits)
	for i := range methods.NumMethod() {
		if methods.Type().Method(i).Name == "All" {
			continue
		}
		balance, err := peek(methods.Method(i))
		must(err)
		if p := left[balance.Limit]; p == nil || p.Capacity != balance.Capacity {
			must(fmt.Errorf("%s answers for %q", methods.Type().Method(i).Name, balance.Limit))
		}
		delete(left, balance.Limit)
	}
	if len(left) > 0 {
		must(fmt.Errorf("no methods for %v", left))
	}
}

func peek(method reflect.Value) (runtime.Balance, error) {
	var key []reflect.Value
	for i := range method.Type().NumIn() {
		key = append(key, reflect.Zero(method.Type().In(i)))
	}
	handle := method.Call(key)[0].Interface().(interface {
		Peek(context.Context) (runtime.Balance, error)
	})
	return handle.Peek(context.Background())
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
