package frameworks

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
)

// echo4Limit returns a route as a middleware. The parameters of the path are the path values of the request, so that the
// function of the route can use r.PathValue("user").
func echo4Limit(route *limithttp.Route) echo.MiddlewareFunc {
	wrap := echo.WrapMiddleware(route.Wrap)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		limited := wrap(next)
		return func(c echo.Context) error {
			for i, name := range c.ParamNames() {
				c.Request().SetPathValue(name, c.ParamValues()[i])
			}
			return limited(c)
		}
	}
}

func echo4Router(perUser *limithttp.Route, post echo.HandlerFunc) http.Handler {
	router := echo.New()
	router.POST("/users/:user/messages", post, echo4Limit(perUser))
	return router
}
