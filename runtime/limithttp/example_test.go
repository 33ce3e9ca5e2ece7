package limithttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"time"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// A limit in front of one route. A program with a database has sqlstore.New in place of the memstore.Store.
func Example() {
	limit := limits.New(&memstore.Store{})
	h := limithttp.New(limit, limithttp.Options{})

	post := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "posted") })
	perUser := h.Limit(func(r *http.Request) (limits.Item, error) {
		id, err := strconv.ParseInt(r.Header.Get("User-ID"), 10, 64)
		return limit.SendMessage(id), err
	})
	mux := http.NewServeMux()
	mux.Handle("POST /messages", perUser.Wrap(post))

	for range 21 {
		request := httptest.NewRequest(http.MethodPost, "/messages", nil)
		request.Header.Set("User-ID", "42")
		response := httptest.NewRecorder()
		mux.ServeHTTP(response, request)
		if left := response.Header().Get("RateLimit"); left == `"sendMessage";r=19;t=114` || response.Code != http.StatusOK {
			fmt.Println(response.Code, left, response.Body)
		}
	}
	// Output:
	// 200 "sendMessage";r=19;t=114 posted
	// 429 "sendMessage";r=0;t=6 {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"reason":"rate","violated-policies":["sendMessage"]}
}

// One request takes from two limits, all or none. The second one counts tokens whose number is known only afterwards.
func ExampleSettle() {
	limit := limits.New(&memstore.Store{})
	h := limithttp.New(limit, limithttp.Options{})
	perTeam := h.All(func(r *http.Request) ([]limits.Item, error) {
		team, model := r.Header.Get("Team"), r.PathValue("model")
		return []limits.Item{limit.LLMRequests(team, model), limit.LLMTokens(team, model).N(4000)}, nil
	})
	mux := http.NewServeMux()
	mux.Handle("POST /complete/{model}", perTeam.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		used := int64(1500)
		if err := limithttp.SettleLimit(r.Context(), "llmTokens", used); err != nil {
			fmt.Println(err)
		}
	})))

	request := httptest.NewRequest(http.MethodPost, "/complete/large", nil)
	request.Header.Set("Team", "red")
	mux.ServeHTTP(httptest.NewRecorder(), request)
	balance, err := limit.LLMTokens("red", "large").Peek(context.Background())
	fmt.Println(balance.Remaining >= 38_500, err)
	// Output: true <nil>
}

// A group of limits.yaml: its Allow has the parameters of the group.
func ExampleBinder_Group() {
	limit := limits.New(&memstore.Store{})
	h := limithttp.New(limit, limithttp.Options{})
	complete := h.Group(func(r *http.Request) (limithttp.Take, error) {
		model, tokens := r.URL.Query().Get("model"), int64(40_000)
		return func(ctx context.Context) (limits.Decisions, error) {
			d, err := limit.Complete("red", model).Allow(ctx, tokens)
			return d.Decisions, err
		}, nil
	})
	handler := complete.Wrap(http.NotFoundHandler())
	for range 2 {
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, httptest.NewRequest(http.MethodPost, "/?model=large", nil))
		fmt.Println(response.Code, response.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 404 "llmRequests";q=1000;w=60, "llmTokens";q=40000;w=60
	// 429 "llmRequests";q=1000;w=60, "llmTokens";q=40000;w=60
}

// A limit by address, behind a proxy.
func ExampleClientIP() {
	limit := limits.New(&memstore.Store{})
	h := limithttp.New(limit, limithttp.Options{})
	clients := limithttp.ClientIP{Header: "X-Forwarded-For", Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	search := h.Limit(func(r *http.Request) (limits.Item, error) {
		addr, err := clients.Of(r)
		return limit.Search(addr), err
	})
	handler := search.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))

	request := httptest.NewRequest(http.MethodGet, "/search", nil)
	request.RemoteAddr = "10.0.0.7:4711"
	for _, address := range []string{"2001:db8::1", "2001:db8::2", "192.0.2.1", "nonsense"} {
		request.Header.Set("X-Forwarded-For", address)
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, request)
		fmt.Println(address, response.Code, response.Header().Get("RateLimit"))
	}
	// Output:
	// 2001:db8::1 200 "search";r=4;t=48
	// 2001:db8::2 200 "search";r=3;t=36
	// 192.0.2.1 200 "search";r=4;t=48
	// nonsense 500
}

// The tokens left, for a client that decides whether to send a request.
func ExampleBinder_Hints() {
	limit := limits.New(&memstore.Store{})
	h := limithttp.New(limit, limithttp.Options{})
	hints := h.Hints(func(r *http.Request) ([]limits.Item, error) { return []limits.Item{limit.SendMessage(42)}, nil })

	response := httptest.NewRecorder()
	hints.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/limits", nil))
	var body struct{ Limits []limithttp.Hint }
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		fmt.Println(err)
	}
	for _, hint := range body.Limits {
		fmt.Println(hint.Limit, hint.Kind, hint.Remaining, "of", hint.Capacity, "and", hint.Rate, "every", time.Duration(hint.Period)*time.Second)
	}
	// Output: sendMessage token bucket 20 of 20 and 10 every 1m0s
}
