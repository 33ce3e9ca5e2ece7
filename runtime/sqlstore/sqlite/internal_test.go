package sqlite

// DropConnections makes the pool close its connection.
func DropConnections(s *Store) {
	s.db.SetMaxIdleConns(-1)
	s.db.SetMaxIdleConns(1)
}
