package main

import (
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// statements counts the statements that SQLite begins to run in the databases that are opened while it is
// traced, BEGIN and COMMIT among them. SQLite itself tells, by sqlite3_trace_v2.
var statements struct {
	count  atomic.Int64
	traced atomic.Bool
}

func init() {
	sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, _ string) error {
		if !statements.traced.Load() {
			return nil
		}
		return trace(conn)
	})
}

// trace has SQLite tell of every statement of a connection. The driver has no function for it, so the
// handle of the connection is read from its field db.
func trace(conn sqlite.ExecQuerierContext) error {
	db := reflect.Indirect(reflect.ValueOf(conn)).FieldByName("db")
	if db.Kind() != reflect.Uintptr {
		return fmt.Errorf("%T has no field db with SQLite's handle", conn)
	}
	tls := libc.NewTLS()
	defer tls.Close()
	callback := *(*uintptr)(unsafe.Pointer(&struct{ f traceFunc }{onStatement}))
	if rc := sqlite3.Xsqlite3_trace_v2(tls, uintptr(db.Uint()), sqlite3.SQLITE_TRACE_STMT, callback, 0); rc != sqlite3.SQLITE_OK {
		return fmt.Errorf("sqlite3_trace_v2: code %d", rc)
	}
	return nil
}

// traceFunc is what SQLite calls: with the kind of event, a context, the statement and its text.
type traceFunc = func(tls *libc.TLS, event uint32, context, statement, text uintptr) int32

// onStatement counts a statement. What begins with "--" is a trigger, part of the statement before.
func onStatement(_ *libc.TLS, _ uint32, _, _, text uintptr) int32 {
	if !strings.HasPrefix(libc.GoString(text), "--") {
		statements.count.Add(1)
	}
	return 0
}
