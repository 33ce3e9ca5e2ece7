package frameworks

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
)

// ginLimit returns a route as a middleware. The parameters of the path are the path values of the request, so that the
// function of the route can use r.PathValue("user").
func ginLimit(route *limithttp.Route) gin.HandlerFunc {
	return func(c *gin.Context) {
		for _, p := range c.Params {
			c.Request.SetPathValue(p.Key, p.Value)
		}
		passed := false
		route.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			passed, c.Request = true, r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
		if !passed {
			c.Abort()
		}
	}
}

func ginRouter(perUser *limithttp.Route, post gin.HandlerFunc) http.Handler {
	router := gin.New()
	router.POST("/users/:user/messages", ginLimit(perUser), post)
	return router
}
