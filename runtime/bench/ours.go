package main

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/sweep"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// sqlStore is a store of this module in a new table. It is not embedded, because limiters use methods that closingStore does
// not have.
type sqlStore struct {
	store closingStore
	// end drops the table.
	end func()
}

type closingStore interface {
	runtime.Store
	sweep.Sweeper
	io.Closer
	Migrate(ctx context.Context, policies ...*runtime.Policy) error
}

// openStore opens a store on a server, or on a new SQLite file without one.
func (s *site) openStore(ctx context.Context, of server, l limit) (*sqlStore, error) {
	if of != "" {
		t, err := s.openTable(ctx, of, l)
		if err != nil {
			return nil, err
		}
		store, err := sqlstore.New(t.db, t.dialect, sqlstore.Options{Table: t.name})
		if err != nil {
			t.drop()
			return nil, err
		}
		return &sqlStore{store, t.drop}, nil
	}
	path := s.newFile()
	t, err := s.openFile(ctx, path, l)
	if err != nil {
		return nil, err
	}
	// The store opens the file again, with its own connections and settings.
	if err := t.db.Close(); err != nil {
		return nil, err
	}
	store, err := sqlite.Open(path)
	if err != nil {
		return nil, err
	}
	return &sqlStore{store, func() {}}, nil
}

func (s *sqlStore) close() {
	closeAndLog(s.store)
	s.end()
}

func closeAndLog(c io.Closer) {
	if err := c.Close(); err != nil {
		logf("close: %v", err)
	}
}

// policyOf returns the policy of a limit, with what another one has besides the numbers.
func policyOf(l limit, as runtime.Policy) *runtime.Policy {
	as.Name, as.Kind = l.name, runtime.TokenBucket
	as.Rate, as.Period, as.Capacity = int64(l.rate), l.period, int64(l.capacity)
	return &as
}

// allow takes tokens like code that is generated from limits.yaml.
func allow(limits *limiter.Limiter, p *runtime.Policy) takeFunc {
	return func(ctx context.Context, key string) (bool, error) {
		// A new handle for each call, as generated code makes it: encoding the key is part of the cost.
		d, err := limits.Limit(p, runtime.KeyOf(runtime.String(key))).Allow(ctx)
		return d.Allowed, err
	}
}

// ours opens a store of this module, with what a policy has besides the numbers of the limit.
func ours(of server, as runtime.Policy) opener {
	return func(ctx context.Context, s *site, l limit) (*instance, error) {
		opened, err := s.openStore(ctx, of, l)
		if err != nil {
			return nil, err
		}
		p := policyOf(l, as)
		o := &instance{
			take:  allow(limiter.New(opened.store), p),
			sweep: func(ctx context.Context) (int, error) { return opened.store.Sweep(ctx, p) },
			close: opened.close,
		}
		if as.Lease != (runtime.Lease{}) {
			o.stride = 64
		}
		return o, nil
	}
}

// oursInMemory opens a store in the memory of the process.
func oursInMemory(_ context.Context, _ *site, l limit) (*instance, error) {
	return inMemory(allow(limiter.New(&memstore.Store{}), policyOf(l, runtime.Policy{}))), nil
}

// visit is a request to the handler of behindHTTP and its response. It is used again, so that only the allocations of
// limithttp count.
type visit struct {
	*http.Request
	header http.Header
	served bool
}

func (v *visit) Header() http.Header            { return v.header }
func (v *visit) WriteHeader(int)                {}
func (v *visit) Write(body []byte) (int, error) { return len(body), nil }

// behindHTTP opens a handler behind limithttp and a store in memory, which takes a token for the value of a header.
func behindHTTP(_ context.Context, _ *site, l limit) (*instance, error) {
	limits, p := limiter.New(&memstore.Store{}), policyOf(l, runtime.Policy{})
	binder := limithttp.New(limits, limithttp.Options{})
	h := binder.Limit(func(r *http.Request) (limiter.Item, error) {
		return limits.Limit(p, runtime.KeyOf(runtime.String(r.Header["User"][0]))), nil
	}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.(*visit).served = true }))
	visits := sync.Pool{New: func() any {
		r, _ := http.NewRequest(http.MethodGet, "/", nil)
		r.Header["User"] = []string{""}
		return &visit{Request: r, header: http.Header{}}
	}}
	return inMemory(func(_ context.Context, key string) (bool, error) {
		v := visits.Get().(*visit)
		defer visits.Put(v)
		clear(v.header)
		v.Request.Header["User"][0], v.served = key, false
		h.ServeHTTP(v, v.Request)
		return v.served, nil
	}), nil
}
