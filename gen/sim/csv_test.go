package sim

import (
	"bytes"
	"encoding/csv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCSV(t *testing.T) {
	var buffer bytes.Buffer
	replay, table := NewReplay(limitsForTest()), NewCSV(&buffer)
	err := traceOf(
		`{"at":"1970-01-01T00:00:00Z","limit":"bucket","key":"=cmd|' /C calc'!A0","count":20}`,
		`{"at":1,"limit":"bucket","key":"=cmd|' /C calc'!A0"}`,
		`{"at":1,"limit":"window","key":["-7","a,\"b\"\nc"],"reserve":true}`,
		`{"at":1,"limit":"shared","count":30}`,
	).Replay(func(l *Line) error {
		a, err := replay.Ask(l)
		require.NoError(t, err)
		return table.Write(l, a)
	}, func(f *Fault) error { return f })
	require.NoError(t, err)
	require.NoError(t, table.Flush())
	assert.Equal(t, `at,limit,key,count,reserve,allowed,retryAfterMs,remaining,value
1970-01-01T00:00:00Z,bucket,'=cmd%7C' /C calc'!A0,20,false,true,,0,0
1,bucket,'=cmd%7C' /C calc'!A0,1,false,false,5999,0,0.00016666666666666666
1,window,"'-7|a,""b""%0Ac",1,true,true,,14,14
1,shared,,30,false,true,,0,0
`, buffer.String())
	rows, err := csv.NewReader(&buffer).ReadAll()
	require.NoError(t, err)
	assert.Len(t, rows, 5)
}

func TestInert(t *testing.T) {
	for text, want := range map[string]string{
		"=1+1": "'=1+1", "+1+1": "'+1+1", "-1+1": "'-1+1", "@SUM(A1)": "'@SUM(A1)", " =1": "' =1", "＝1": "'＝1",
		"-42": "-42", "+42": "+42", "42": "42", "alice": "alice", "a=b": "a=b", "": "",
	} {
		assert.Equal(t, want, inert(text))
	}
}
