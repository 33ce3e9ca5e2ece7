package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
)

// conduct returns how the driver of db sends statements outside of transactions.
//
// It resends if it may send a statement again that the server has carried out already. Package database/sql does so
// when a driver returns driver.ErrBadConn, which drivers should return only for what they have not sent; lib/pq
// returns it for any connection that breaks, and so does what wraps it.
//
// It splits if it may prepare a statement and run it by two messages that a pooler may send to two sessions of the
// server. lib/pq does so: it prepares without a name, waits for the answer, and then runs what is prepared without a
// name. pgx in its mode describe_exec does the same. Its other modes send one message, or name the statement after its
// text, so that what is run is what was prepared. Drivers that are not known may do both.
func conduct(ctx context.Context, db *sql.DB) (resends, splits bool, err error) {
	switch fmt.Sprintf("%T", db.Driver()) {
	case "*mysql.MySQLDriver", "*sqlite.Driver":
		return false, false, nil
	case "*stdlib.Driver":
		mode, err := execMode(ctx, db)
		return false, mode == "" || mode == "describe exec", err
	}
	return true, true, nil
}

// execMode returns what pgx calls the mode in which it runs statements, or "" if that is not known. A connection of
// pgx's package stdlib has a method Conn, and what that returns a method Config: this package imports no driver.
func execMode(ctx context.Context, db *sql.DB) (mode string, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	err = conn.Raw(func(of any) error {
		method := reflect.ValueOf(of).MethodByName("Conn")
		if !returnsOne(method) {
			return nil
		}
		method = method.Call(nil)[0].MethodByName("Config")
		if !returnsOne(method) {
			return nil
		}
		config := reflect.Indirect(method.Call(nil)[0])
		if config.Kind() != reflect.Struct {
			return nil
		}
		if field := config.FieldByName("DefaultQueryExecMode"); field.IsValid() {
			mode = fmt.Sprint(field.Interface())
		}
		return nil
	})
	return mode, err
}

// returnsOne reports whether there is a method, without parameters and with one result.
func returnsOne(method reflect.Value) bool {
	return method.IsValid() && method.Type().NumIn() == 0 && method.Type().NumOut() == 1
}
