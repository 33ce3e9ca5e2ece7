package frameworks

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
)

// chiRouter has a limit in front of one route. The function of the route can use r.PathValue, because With comes after
// routing.
func chiRouter(perUser *limithttp.Route, post http.HandlerFunc) http.Handler {
	router := chi.NewRouter()
	router.With(perUser.Wrap).Post("/users/{user}/messages", post)
	return router
}
