// Command everyday does the things that people ask of a rate limiter first, and prints the responses.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"example.com/app/limits"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

var noon = time.Date(2026, time.November, 29, 12, 0, 0, 0, time.UTC)

func newStore() *memstore.Store { return &memstore.Store{Clock: func() time.Time { return noon }} }

func main() {
	exempt()
	environments()
	nearly()
	zero()
	billed()
}

// exempt lets requests pass without a limit: health checks, staff and networks by the function of a route, and an address by the file.
func exempt() {
	limit := limits.New(newStore())
	staff := netip.MustParsePrefix("10.1.0.0/16")
	client := limithttp.ClientIP{Direct: true}
	perAddress := limithttp.New(limit, limithttp.Options{}).Limit(func(r *http.Request) (limits.Item, error) {
		addr, err := client.Of(r)
		if r.URL.Path == "/healthz" || r.Header.Get("Authorization") == "Bearer ours" || staff.Contains(addr) {
			return nil, err
		}
		return limit.Search(addr), err
	})
	handler := perAddress.Wrap(http.HandlerFunc(found))
	for _, from := range []struct{ who, addr, path, token string }{
		{"a visitor", "192.0.2.1", "/", ""},
		{"a health check", "192.0.2.1", "/healthz", ""},
		{"a service of ours", "192.0.2.1", "/", "Bearer ours"},
		{"an office", "10.1.2.3", "/", ""},
		{"our monitoring, in limits.yaml", "192.0.2.7", "/", ""},
		{"an abuser, in limits.yaml", "192.0.2.66", "/", ""},
	} {
		fmt.Printf("%s:", from.who)
		for range 3 {
			r := httptest.NewRequest(http.MethodGet, from.path, nil)
			r.RemoteAddr = from.addr + ":4711"
			r.Header.Set("Authorization", from.token)
			fmt.Print(" ", serve(handler, r).Code)
		}
		fmt.Println()
	}
}

// environments runs one program with the variables of several environments.
func environments() {
	for _, environment := range []struct{ name, mode, plan string }{
		{"production", "", "pro"},
		{"a load test", "off", "pro"},
		{"before the launch", "shadow", "pro"},
		{"staging, with numbers of its own", "", "staging"},
	} {
		os.Setenv("LIMITS_MODE", environment.mode)
		os.Setenv("LIMITS_PLAN", environment.plan)
		mode := map[string]runtime.Mode{"off": runtime.ModeOff, "shadow": runtime.ModeShadow}[os.Getenv("LIMITS_MODE")]
		plan, err := limits.ParsePlan(os.Getenv("LIMITS_PLAN"))
		must(err)
		limit := limits.New(newStore(), limiter.Mode(mode))
		perOrg := limithttp.New(limit, limithttp.Options{}).Limit(func(r *http.Request) (limits.Item, error) { return limit.APICalls(7, plan), nil })
		fmt.Printf("%s:", environment.name)
		for range 6 {
			fmt.Print(" ", serve(perOrg.Wrap(http.HandlerFunc(found)), httptest.NewRequest(http.MethodGet, "/", nil)).Code)
		}
		fmt.Println()
	}
}

// orgKey is the key of the organization in the context of a request.
type orgKey struct{}

// mailer is an observer that mails to an organization when four fifths are used, once in each window.
type mailer struct{}

func (mailer) Decided(ctx context.Context, o runtime.Observation) {
	most := o.Policy.Full()
	if used := most - o.Remaining; o.Taken > 0 && used*5 >= most*4 && (used-o.Taken)*5 < most*4 {
		fmt.Printf(" (mail to organization %v: %d of %d used)", ctx.Value(orgKey{}), used, most)
	}
}

// nearly warns both sides: the client by the fields of each response, and the organization by an observer.
func nearly() {
	limit := limits.New(newStore(), limiter.Observe(mailer{}))
	perOrg := limithttp.New(limit, limithttp.Options{}).Limit(func(r *http.Request) (limits.Item, error) { return limit.APICalls(7, limits.PlanPro), nil })
	fmt.Print("nearly used up:")
	for range 6 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r = r.WithContext(context.WithValue(r.Context(), orgKey{}, 7))
		fmt.Print(" ", serve(perOrg.Wrap(http.HandlerFunc(found)), r).Header().Get("RateLimit"))
	}
	fmt.Println()
}

// zero denies every request of a plan, of a contract or of a key, without a time after which a retry passes.
func zero() {
	limit := limits.New(newStore())
	h := limithttp.New(limit, limithttp.Options{})
	for _, row := range []struct {
		who  string
		item limits.Item
	}{
		{"a plan with the rate 0", limit.APICalls(8, limits.PlanFree)},
		{"a contract of 0", limit.Contract(8, limits.ContractNumbers{})},
		{"a blocked key", limit.Search(netip.MustParseAddr("192.0.2.66"))},
	} {
		route := h.Limit(func(*http.Request) (limits.Item, error) { return row.item, nil })
		response := serve(route.Wrap(http.HandlerFunc(found)), httptest.NewRequest(http.MethodGet, "/", nil))
		body, err := io.ReadAll(response.Body)
		must(err)
		fmt.Printf("%s: %d, Retry-After %q, %s\n", row.who, response.Code, response.Header().Get("Retry-After"), strings.TrimSpace(string(body)))
	}
}

// billed counts without a bound. The page of an organization has its use and the end of the month.
func billed() {
	limit := limits.New(newStore())
	h := limithttp.New(limit, limithttp.Options{})
	upload := h.Handler(func(w http.ResponseWriter, r *http.Request) error {
		n, err := strconv.ParseInt(r.URL.Query().Get("bytes"), 10, 64)
		if err != nil {
			return limithttp.Error(http.StatusBadRequest, err)
		}
		return limit.Storage(7).RequireN(r.Context(), n)
	})
	for _, path := range []string{"/?bytes=1000000", "/?bytes=2345678"} {
		fmt.Print(path, ": ", serve(upload, httptest.NewRequest(http.MethodPost, path, nil)).Code, "; ")
	}
	usage := h.Hints(func(*http.Request) ([]limits.Item, error) { return []limits.Item{limit.Storage(7)}, nil })
	response := serve(usage, httptest.NewRequest(http.MethodGet, "/usage", nil))
	var page struct{ Limits []limithttp.Hint }
	must(json.NewDecoder(response.Body).Decode(&page))
	b, err := limit.Storage(7).Peek(context.Background())
	must(err)
	fmt.Printf("%d used until %v; ", b.Used, b.ResetAt.Format(time.RFC3339))
	for _, of := range page.Limits {
		fmt.Printf("on the page: %s unlimited %t, %d used\n", of.Limit, of.Unlimited, of.Used)
	}
}

func found(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "found") }

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	response := httptest.NewRecorder()
	h.ServeHTTP(response, r)
	return response
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
