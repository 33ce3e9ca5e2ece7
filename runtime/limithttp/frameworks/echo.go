package frameworks

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
)

// echoRouter has a limit in front of one route. The function of the route can use r.PathValue("user").
func echoRouter(perUser *limithttp.Route, post echo.HandlerFunc) http.Handler {
	router := echo.New()
	router.POST("/users/:user/messages", post, echo.WrapMiddleware(perUser.Wrap))
	return router
}
