package conn

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
)

const (
	pgxDriver   = "*stdlib.Driver"
	mysqlDriver = "*mysql.MySQLDriver"
)

// driverType returns the name of the type of a driver, because this package imports none.
func driverType(db *sql.DB) string { return fmt.Sprintf("%T", db.Driver()) }

// takesRaw reports whether TakeRaw works with a driver: its connections run a query without preparing it, and its rows have
// a float64, an int64 and a bool for columns of these types.
func takesRaw(db *sql.DB) bool { return driverType(db) == pgxDriver }

// honorsContext reports whether a driver's statements return soon after their context has ended. COMMIT need not: see
// sqlstore.Store.Do.
func honorsContext(db *sql.DB) bool {
	driver := driverType(db)
	return driver == pgxDriver || driver == mysqlDriver
}

// driverBehavior returns how the driver of db sends statements outside of transactions.
//
// It resends if it may send a statement again that the server has executed. Package database/sql does so
// when a driver returns driver.ErrBadConn, which drivers should return only for statements that they have not sent; lib/pq
// and its wrappers return it for any connection that breaks.
//
// It splits if it may prepare a statement and run it by two messages that a pooler may send to two sessions of the
// server. lib/pq does so: it prepares without a name, waits for the response, and then runs the statement without a
// name. pgx in its mode describe_exec does the same. Its other modes send one message, or name the statement after its
// text, so that no other statement can be run. An unknown driver may do both.
func driverBehavior(ctx context.Context, db *sql.DB) (resends, splits bool, err error) {
	switch driverType(db) {
	case mysqlDriver, "*sqlite.Driver":
		// Both return driver.ErrBadConn only for statements that they have not sent.
		return false, false, nil
	case pgxDriver:
		mode, err := pgxExecMode(ctx, db)
		return false, mode == "" || mode == "describe exec", err
	}
	// The safe assumption costs a transaction per statement.
	return true, true, nil
}

// pgxExecMode returns pgx's DefaultQueryExecMode, or "" if it cannot be read. A connection of pgx's package stdlib has a
// method Conn, and its result a method Config, which are called by reflection because this package imports no driver.
func pgxExecMode(ctx context.Context, db *sql.DB) (mode string, err error) {
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
		// A version of pgx without the field has an unknown mode.
		if field := config.FieldByName("DefaultQueryExecMode"); field.IsValid() {
			mode = fmt.Sprint(field.Interface())
		}
		return nil
	})
	return mode, err
}

// returnsOne reports whether a method exists, without parameters and with one result.
func returnsOne(method reflect.Value) bool {
	return method.IsValid() && method.Type().NumIn() == 0 && method.Type().NumOut() == 1
}
