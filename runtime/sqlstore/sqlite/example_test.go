package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

var exports = &runtime.Policy{Name: "exports", Kind: runtime.FixedWindow, Rate: 2, Period: 24 * time.Hour, Capacity: 2}

func Example() {
	folder, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(folder)
	store, err := sqlite.Open(filepath.Join(folder, "limits.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	limit := limiter.New(store).Limit(exports, runtime.KeyOf(runtime.String("ada")))
	for range 3 {
		d, err := limit.Allow(context.Background())
		fmt.Println(d.Allowed, d.Remaining, err)
	}
	// Output:
	// true 1 <nil>
	// true 0 <nil>
	// false 0 <nil>
}

// The counts may be in the database of an app, and change in its transactions.
func Example_transaction() {
	ctx := context.Background()
	folder, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(folder)
	db, _ := sql.Open("sqlite", "file:"+filepath.Join(folder, "app.db")+"?_txlock=immediate")
	defer db.Close()
	store, _ := sqlstore.New(db, dialect.SQLite, sqlstore.Options{})
	if err := store.Migrate(ctx); err != nil {
		fmt.Println(err)
		return
	}

	limits := limiter.New(store)
	err := sqlstore.RunInTx(ctx, db, func(tx *sql.Tx) error {
		if err := limits.WithTx(tx).Limit(exports, runtime.Key{}).Require(ctx); err != nil {
			return err
		}
		return fmt.Errorf("the export failed")
	})
	b, _ := limits.Limit(exports, runtime.Key{}).Peek(ctx)
	fmt.Printf("%v: %d left\n", err, b.Remaining)
	// Output: the export failed: 2 left
}
