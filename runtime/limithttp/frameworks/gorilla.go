package frameworks

import (
	"net/http"

	"github.com/gorilla/mux"

	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
)

// gorillaRouter has a limit in front of one route. The function of the route finds the variables with mux.Vars(r).
func gorillaRouter(perUser *limithttp.Route, post http.HandlerFunc) http.Handler {
	router := mux.NewRouter()
	router.Handle("/users/{user}/messages", perUser.Wrap(post)).Methods(http.MethodPost)
	return router
}
