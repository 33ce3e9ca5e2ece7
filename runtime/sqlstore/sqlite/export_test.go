package sqlite

import "time"

// DropConnections has the pool close its connection and open another. It returns how many there have been.
func DropConnections(s *Store) int64 {
	s.db.SetConnMaxLifetime(time.Nanosecond)
	defer s.db.SetConnMaxLifetime(0)
	s.db.Ping()
	return s.connections.Load()
}
