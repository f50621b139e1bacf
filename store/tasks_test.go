package store

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/task"
)

func TestTasksRoundTrip(t *testing.T) {
	ctx, o := t.Context(), options(privateDir(t))
	db := openTest(t, o)
	later := task.Task{
		ID: "a-later", Owner: "alice (x)", Status: task.Working, Created: now.Add(time.Second), Updated: now, TTL: time.Hour, Deadline: now.Add(time.Minute), Starts: 2,
		Call: task.Call{Path: []string{"show", "net"}, Args: json.RawMessage(`{"n":1}`), Surface: "mcp", Principal: "alice", Accessor: "x", Client: json.RawMessage(`{}`)},
	}
	first := task.Task{
		ID: "first", Owner: "alice (x)", Status: task.Completed, Created: now, Updated: now, Deadline: now, Result: json.RawMessage(`{"a":"b"}`),
		Call: task.Call{Path: []string{"x"}}, Answer: &command.Answer{Content: json.RawMessage(`[]`), Failed: true},
		Error: &command.Error{Code: command.Conflict, Message: "no", Actions: []string{"yes"}},
	}
	check(t, db.PutTask(ctx, later))
	check(t, db.PutTask(ctx, task.Task{ID: "first", Status: task.Working}))
	check(t, db.PutTask(ctx, first))
	check(t, db.PutTask(ctx, task.Task{ID: "gone"}))
	check(t, db.DeleteTask(ctx, "gone"))
	check(t, db.DeleteTask(ctx, "never there"))
	check(t, db.Close())
	db = openTest(t, o)
	got, err := db.Tasks(ctx)
	check(t, err)
	if want := []task.Task{first, later}; !reflect.DeepEqual(got, want) {
		t.Errorf("tasks:\n got %+v\nwant %+v", got, want)
	}
	one, err := db.Task(ctx, "first")
	if err != nil || !reflect.DeepEqual(one, first) {
		t.Errorf("%+v, %v", one, err)
	}
	if _, err := db.Task(ctx, "gone"); !errors.Is(err, task.ErrNoTask) {
		t.Errorf("a task that is gone: %v", err)
	}
	if err := db.PutTask(ctx, task.Task{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a task without an id: %v", err)
	}
}

// A damaged task is not there, costs the others nothing, and can be removed.
func TestDamagedTask(t *testing.T) {
	ctx := t.Context()
	db := openTest(t, options(privateDir(t)))
	for _, id := range []string{"a", "b"} {
		check(t, db.PutTask(ctx, task.Task{ID: id, Created: now}))
	}
	check(t, db.update(ctx, func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(bucketTasks))
		v := append([]byte(nil), b.Get([]byte("a"))...)
		v[len(v)-2] ^= 1
		return b.Put([]byte("a"), v)
	}))
	got, err := db.Tasks(ctx)
	if err != nil || len(got) != 1 || got[0].ID != "b" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := db.Task(ctx, "a"); !errors.Is(err, ErrBadRecord) {
		t.Errorf("a damaged task: %v", err)
	}
	check(t, db.DeleteTask(ctx, "a"))
	bad, err := db.CheckRecords(ctx)
	if err != nil || len(bad) > 0 {
		t.Errorf("%v, %v", bad, err)
	}
}
