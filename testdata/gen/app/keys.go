package main

import (
	"context"
	"fmt"
	"io"
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
	code := operate.Program{Catalog: keys.Catalog(), Store: store}.Main(ctx, words, io.Discard)
	fmt.Println(words[:3], code)
}
