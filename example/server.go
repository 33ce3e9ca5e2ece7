package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// usage returns example calls of the server, and where the page of operators is.
func usage(url, page string) string {
	return fmt.Sprintf(`Listening on %[1]s

  curl -i '%[1]s/search?q=cats'
  curl -i -X POST '%[1]s/login?user=ada&password=wrong'
  curl -i -X POST '%[1]s/messages?user=42&text=hello'
  curl -i '%[1]s/orgs/1/report'
  curl -i -X POST '%[1]s/completions?team=blue&model=large&prompt=hello'
  curl '%[1]s/metrics'

and open %[2]s/ in a browser
`, url, page)
}

// server has a database with both its data and the counts of its limits, so that one transaction changes both.
type server struct {
	db    *sql.DB
	limit *limits.Limits
	h     *limithttp.Binder
	// client finds the address of a client.
	client limithttp.ClientIP
}

// routes returns the handler of all requests. Each route shows another way to use limits.
func (s *server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /search", s.perAddress().Wrap(http.HandlerFunc(s.search)))
	mux.Handle("POST /login", s.h.Handler(s.login))
	mux.Handle("POST /messages", s.h.Handler(s.post))
	mux.Handle("GET /orgs/{org}/report", s.perOrganization().Wrap(http.HandlerFunc(s.report)))
	mux.Handle("POST /completions", s.completion().Wrap(s.h.Handler(s.complete)))
	return mux
}

// perAddress takes a token before the handler runs. The key is the address of the client, because there is no account yet.
func (s *server) perAddress() *limithttp.Route {
	return s.h.Limit(func(r *http.Request) (limits.Item, error) {
		addr, err := s.client.Of(r)
		return s.limit.Search(addr), err
	})
}

func (s *server) search(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "nothing found for %q\n", r.FormValue("q"))
}

// login takes a token before it compares the password, and resets the limit if the password is right. In the other
// order, parallel guesses would not count.
func (s *server) login(w http.ResponseWriter, r *http.Request) error {
	failed := s.limit.FailedLogins(r.FormValue("user"))
	if err := failed.Require(r.Context()); err != nil {
		return err
	}
	if r.FormValue("password") != "right" {
		return limithttp.Error(http.StatusUnauthorized, errors.New("wrong user or password"))
	}
	if err := failed.Reset(r.Context()); err != nil {
		return err
	}
	fmt.Fprintln(w, "welcome")
	return nil
}

// post takes a token and stores a message in one transaction: both happen, or neither does.
func (s *server) post(w http.ResponseWriter, r *http.Request) error {
	user, err := strconv.ParseInt(r.FormValue("user"), 10, 64)
	if err != nil {
		return limithttp.Error(http.StatusBadRequest, err)
	}
	err = sqlstore.RunInTx(r.Context(), s.db, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(r.Context(), "INSERT INTO messages (user, text) VALUES (?, ?)", user, r.FormValue("text")); err != nil {
			return err
		}
		return s.limit.WithTx(tx).SendMessage(user).Require(r.Context())
	})
	if err == nil {
		w.WriteHeader(http.StatusCreated)
	}
	return err
}

// perOrganization depends on what an organization pays: its plan is a column of the database.
func (s *server) perOrganization() *limithttp.Route {
	return s.h.Limit(func(r *http.Request) (limits.Item, error) {
		org, err := strconv.ParseUint(r.PathValue("org"), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the organization must be a number, not %q", r.PathValue("org"))
		}
		var plan limits.Plan
		err = s.db.QueryRowContext(r.Context(), "SELECT plan FROM organizations WHERE id = ?", org).Scan(&plan)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return nil, limithttp.Error(http.StatusNotFound, fmt.Errorf("no organization %d", org))
		case err != nil:
			return nil, limithttp.Error(http.StatusServiceUnavailable, fmt.Errorf("the plan of organization %d: %w", org, err))
		}
		return s.limit.APICalls(org, plan), nil
	})
}

func (s *server) report(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "the report of organization %s\n", r.PathValue("org"))
}

// most is the most tokens that one completion can cost.
const most = 10_000

// completion takes a request and the most tokens that it can cost, both or neither, by a group of limits.
func (s *server) completion() *limithttp.Route {
	return s.h.Group(func(r *http.Request) (limithttp.Take, error) {
		group := s.limit.Complete(r.FormValue("team"), r.FormValue("model"))
		return func(ctx context.Context) (limits.Decisions, error) {
			d, err := group.Allow(ctx, most)
			return d.Decisions, err
		}, nil
	})
}

// complete gives back the tokens that were not used: the cost is known only at the end.
func (s *server) complete(w http.ResponseWriter, r *http.Request) error {
	used := int64(100 + len(r.FormValue("prompt")))
	if err := limithttp.SettleLimit(r.Context(), "llmTokens", used); err != nil {
		return err
	}
	fmt.Fprintf(w, "used %d tokens\n", used)
	return nil
}
