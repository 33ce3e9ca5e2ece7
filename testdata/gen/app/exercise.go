package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// exercise calls each method of a generated Limits with any key, and checks that it uses a policy that no other method
// uses. The policies must be as described: one per line.
func exercise(limits any, policies []*runtime.Policy, described string) {
	left := map[string]*runtime.Policy{}
	got := ""
	for _, p := range policies {
		left[p.Name] = p
		must(p.Validate())
		got += fmt.Sprintf("%+v\n", *p)
	}
	if got != described {
		must(fmt.Errorf("generated policies:\n%s\nlimits.yaml:\n%s", got, described))
	}
	methods := reflect.ValueOf(limits)
	for i := range methods.NumMethod() {
		if name := methods.Type().Method(i).Name; name == "All" || name == "WithTx" {
			continue
		}
		balance, err := peek(methods.Method(i))
		must(err)
		if p := left[balance.Limit]; p == nil || p.Capacity != balance.Capacity {
			must(fmt.Errorf("%s uses the policy %q", methods.Type().Method(i).Name, balance.Limit))
		}
		delete(left, balance.Limit)
	}
	if len(left) > 0 {
		must(fmt.Errorf("no methods use the policies %v", left))
	}
}

func peek(method reflect.Value) (runtime.Balance, error) {
	var key []reflect.Value
	for i := range method.Type().NumIn() {
		key = append(key, part(method.Type().In(i)))
	}
	handle := method.Call(key)[0].Interface().(interface {
		Peek(context.Context) (runtime.Balance, error)
	})
	return handle.Peek(context.Background())
}

// part returns a value of a type that can be a part of a key: the zero value, except for addresses.
func part(of reflect.Type) reflect.Value {
	if of == reflect.TypeFor[netip.Addr]() {
		return reflect.ValueOf(netip.IPv4Unspecified())
	}
	switch of {
	case reflect.TypeFor[time.Time]():
		return reflect.ValueOf(time.Date(2024, 1, 31, 12, 0, 0, 0, time.UTC))
	case reflect.TypeFor[*time.Location]():
		return reflect.ValueOf(time.UTC)
	}
	return reflect.Zero(of)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
