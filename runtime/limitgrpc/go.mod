module github.com/ratelimitgen/ratelimitgen/runtime/limitgrpc

go 1.26.0

replace github.com/ratelimitgen/ratelimitgen => ../..

require (
	github.com/ratelimitgen/ratelimitgen v0.1.0
	github.com/stretchr/testify v1.12.1
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261019180522-ce908d29299b
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)
