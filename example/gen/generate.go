package limits

//go:generate go run ../../cmd/ratelimitgen generate ../../limits.example.yaml
