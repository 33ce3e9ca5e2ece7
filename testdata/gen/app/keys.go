package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"

	"example.com/app/keys"
)

// keyed prints what becomes of keys that are not stored as they are passed, by each store.
func keyed(ctx context.Context) {
	file, err := sqlite.Open(":memory:")
	if err == nil {
		err = file.Migrate(ctx, keys.Policies()...)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()
	for _, store := range []runtime.RowLister{&memstore.Store{}, file} {
		fold(ctx, store)
		alternatives(ctx, store)
	}
}

// fold spells keys in several ways, in requests and in commands of operators.
func fold(ctx context.Context, store runtime.RowLister) {
	limits := keys.New(store)
	for _, email := range []string{"Zoë@Example.com", "ZOE\u0308@EXAMPLE.COM", "zoë@example.com"} {
		d, err := limits.Login(email).Allow(ctx)
		fmt.Println("login:", d.Allowed, err)
		d, err = limits.Invite(7, email).Allow(ctx)
		fmt.Println("invite:", d.Allowed, err)
	}
	for _, l := range keys.Catalog().Limits {
		listRows(ctx, store, l.Name)
	}
	command(ctx, store, "block login BOB@example.com -for 1h -reason r -author a")
	d, err := limits.Login("Bob@Example.com").Allow(ctx)
	fmt.Println("blocked:", d.Allowed, d.BlockedFor > 0, err)
	command(ctx, store, "override invite 7 BOB@example.com -rate 1 -for 1h -reason r -author a")
	balance, err := limits.Invite(7, "Bob@Example.com").Peek(ctx)
	fmt.Println("overridden:", balance.Capacity, err)
	command(ctx, store, "block -stored=BOB@example.com login -for 1h -reason r -author a")
	command(ctx, store, "erase login ZOË@example.com -reason r -author a")
	command(ctx, store, "erase invite 7 ZOË@example.com -reason r -author a")
	for _, l := range keys.Catalog().Limits {
		listRows(ctx, store, l.Name)
	}
}

// alternatives counts users and addresses by one part of a key.
func alternatives(ctx context.Context, store runtime.RowLister) {
	limits := keys.New(store)
	user, subscriber := keys.CallerUserID(7), netip.MustParseAddr("2001:db8::1")
	for _, l := range []keys.Limit{
		limits.Post(user), limits.Post(keys.CallerAddr(subscriber)), limits.Post(keys.CallerAddr(subscriber.Next())),
		limits.Sign(keys.WhoName("true")), limits.Sign(keys.WhoPaid(true)), limits.Sign(keys.WhoMail("Ann@X")), limits.Sign(keys.WhoMail("ann@x")),
		limits.Post(keys.Caller{}), limits.Sign(keys.WhoName("")),
	} {
		d, err := l.AllowN(ctx, 2)
		fmt.Println("alternative:", d.Allowed, err)
	}
	ds, err := limits.Publish(keys.CallerUserID(8), "team", keys.WhoPaid(false)).Allow(ctx)
	fmt.Println("publish:", ds.Allowed, err)
	ds, err = limits.Publish(user, "team", keys.WhoPaid(false)).Allow(ctx)
	fmt.Println("publish:", ds.Allowed, err)
	_, err = limits.Publish(user, "team", keys.Who{}).Allow(ctx)
	fmt.Println("publish:", errors.Is(err, runtime.ErrInvalidKey), err)
	for _, name := range []string{"post", "read", "sign"} {
		listRows(ctx, store, name)
	}
	command(ctx, store, "reset post userID:7 -reason r -author a")
	d, err := limits.Post(user).Allow(ctx)
	fmt.Println("reset:", d.Allowed, err)
	command(ctx, store, "block post 7 -for 1h -reason r -author a")
	command(ctx, store, "block -stored=addr:2001:db8::/64 post -for 1h -reason r -author a")
	command(ctx, store, "block -all userID=9 -for 1h -reason r -author a")
	for _, caller := range []keys.Caller{user, keys.CallerUserID(9), keys.CallerAddr(subscriber)} {
		balance, err := limits.Post(caller).Peek(ctx)
		fmt.Println("blocked:", balance.BlockedFor > 0, err)
	}
}

func listRows(ctx context.Context, store runtime.RowLister, limit string) {
	rows, _, err := store.Rows(ctx, runtime.Row{Name: limit, Shard: -1}, 10)
	for _, row := range rows {
		fmt.Println(limit, "has", row.Row.Key)
	}
	if err != nil {
		fmt.Println(err)
	}
}

// command runs a command of operators, and prints its name and exit code.
func command(ctx context.Context, store runtime.Store, line string) {
	words := strings.Fields(line)
	code := operate.Program{Catalog: keys.Catalog(), Store: store}.Main(ctx, words, io.Discard, io.Discard)
	fmt.Println(words[:3], code)
}
