package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"example.com/app/keys"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// exercise calls each method of a generated Limits with any key, and with each plan if it takes one, and checks that it uses
// a policy that no other call uses. The policies must be as described: one per line.
func exercise(limits any, policies []*runtime.Policy, described string) {
	left := map[string][]*runtime.Policy{}
	got := ""
	for _, p := range policies {
		left[p.Name] = append(left[p.Name], p)
		must(p.Validate())
		// As JSON, which has what a file says and not the plans of the limit.
		text, err := json.Marshal(p)
		must(err)
		got += string(text) + "\n"
	}
	if got != described {
		must(fmt.Errorf("generated policies:\n%s\nlimits.yaml:\n%s", got, described))
	}
	methods := reflect.ValueOf(limits)
	for i := range methods.NumMethod() {
		name := methods.Type().Method(i).Name
		if name == "All" || name == "PeekAll" || name == "ReserveAll" || name == "WithConn" || name == "WithTx" || isGroup(methods.Method(i)) {
			continue
		}
		for plan := int64(1); ; plan++ {
			balance, last := peek(methods.Method(i), plan)
			// The policies of a limit are in the order of its plans.
			if of := left[balance.Limit]; len(of) == 0 || capacity(of[0]) != balance.Capacity {
				must(fmt.Errorf("%s uses the policy %q", name, balance.Limit))
			}
			if left[balance.Limit] = left[balance.Limit][1:]; len(left[balance.Limit]) == 0 {
				delete(left, balance.Limit)
			}
			if last {
				break
			}
		}
	}
	if len(left) > 0 {
		must(fmt.Errorf("no methods use the policies %v", left))
	}
}

// isGroup reports whether a method returns a group, which has no policy of its own.
func isGroup(method reflect.Value) bool {
	_, peeks := method.Type().Out(0).MethodByName("Peek")
	return !peeks
}

// given is each number that calls give, where the limit has them from its callers.
const given = 5

func capacity(p *runtime.Policy) int64 {
	if p.Mode == runtime.ModeUnlimited || p.Mode == runtime.ModeOff {
		return runtime.MaxTokens
	}
	if p.AtMost.Full() > 0 {
		return given
	}
	return p.Full()
}

// peek calls a method with any key and a plan, and reports whether no plan follows. The plans before and after them are
// errors.
func peek(method reflect.Value, plan int64) (b runtime.Balance, last bool) {
	b, err := call(method, plan)
	must(err)
	if !takesPlan(method) {
		return b, true
	}
	for _, none := range []int64{-1, 0, 1 << 40} {
		if _, err := call(method, none); !errors.Is(err, runtime.ErrInvalidPlan) || !strings.Contains(err.Error(), strconv.Quote(b.Limit)) {
			must(fmt.Errorf("the plan %d is not an error of the limit %q: %v", none, b.Limit, err))
		}
	}
	_, err = call(method, plan+1)
	return b, err != nil
}

func takesPlan(method reflect.Value) bool { return planOf(method) >= 0 }

// planOf returns the index of the parameter with the plan, or -1.
func planOf(method reflect.Value) int {
	for i := range method.Type().NumIn() {
		if method.Type().In(i).Name() == "Plan" {
			return i
		}
	}
	return -1
}

func call(method reflect.Value, plan int64) (runtime.Balance, error) {
	var arguments []reflect.Value
	for i := range method.Type().NumIn() {
		arguments = append(arguments, part(method.Type().In(i)))
	}
	if at := planOf(method); at >= 0 {
		of := reflect.New(arguments[at].Type()).Elem()
		of.SetInt(plan)
		arguments[at] = of
	}
	handle := method.Call(arguments)[0].Interface().(interface {
		Peek(context.Context) (runtime.Balance, error)
	})
	return handle.Peek(context.Background())
}

// part returns a value of a type that can be a part of a key: the zero value, but for those that cannot be zero.
func part(of reflect.Type) reflect.Value {
	if of.Kind() == reflect.String {
		return reflect.ValueOf("key").Convert(of)
	}
	if of == reflect.TypeFor[netip.Addr]() {
		return reflect.ValueOf(netip.IPv4Unspecified())
	}
	if field, ok := fieldOf(of, "ID"); ok {
		own := reflect.New(of).Elem()
		own.FieldByIndex(field.Index).SetString("key")
		return own
	}
	if strings.HasSuffix(of.Name(), "Priority") { // the first one, which leaves nothing
		return reflect.ValueOf(1).Convert(of)
	}
	if strings.HasSuffix(of.Name(), "Numbers") {
		numbers := reflect.New(of).Elem()
		for i := range numbers.NumField() {
			if n := numbers.Field(i); n.CanInt() { // otherwise it is Unlimited
				n.SetInt(given)
			}
		}
		return numbers
	}
	switch of {
	case reflect.TypeFor[time.Time]():
		return reflect.ValueOf(time.Date(2024, 1, 31, 12, 0, 0, 0, time.UTC))
	case reflect.TypeFor[netip.Prefix]():
		return reflect.ValueOf(netip.MustParsePrefix("10.0.0.0/8"))
	case reflect.TypeFor[*time.Location]():
		return reflect.ValueOf(time.UTC)
	case reflect.TypeFor[keys.Caller]():
		return reflect.ValueOf(keys.CallerUserID(7))
	case reflect.TypeFor[keys.Who]():
		return reflect.ValueOf(keys.WhoName("key"))
	}
	return reflect.Zero(of)
}

// fieldOf returns the field of a struct with a name.
func fieldOf(of reflect.Type, name string) (reflect.StructField, bool) {
	if of.Kind() != reflect.Struct {
		return reflect.StructField{}, false
	}
	return of.FieldByName(name)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
