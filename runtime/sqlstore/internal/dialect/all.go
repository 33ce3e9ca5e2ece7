package dialect

// All returns the dialects of this package, the default of ratelimitgen's commands first.
func All() []Dialect { return []Dialect{SQLite, Postgres, MariaDB, MySQL, Vitess} }
