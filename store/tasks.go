package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"ze.internal/ze/appliance/task"
)

var _ task.Store = (*DB)(nil)

// Tasks implements task.Store.
func (db *DB) Tasks(ctx context.Context) ([]task.Task, error) {
	var all []task.Task
	err := db.view(ctx, func(tx *bolt.Tx) error {
		return db.each(tx, bucketTasks, func(key, payload []byte) error {
			var t task.Task
			if err := unmarshal(bucketTasks, key, payload, &t); err != nil {
				return err
			}
			all = append(all, t)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b task.Task) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	return all, nil
}

// Task implements task.Store. ErrBadRecord.
func (db *DB) Task(ctx context.Context, id string) (task.Task, error) {
	var payload []byte
	err := db.view(ctx, func(tx *bolt.Tx) error {
		found, err := get(tx, bucketTasks, []byte(id))
		if err == nil && found == nil {
			err = fmt.Errorf("%w: %s", task.ErrNoTask, id)
		}
		payload = bytes.Clone(found) // answers can be large: they are decoded outside
		return err
	})
	var t task.Task
	if err == nil {
		err = unmarshal(bucketTasks, []byte(id), payload, &t)
	}
	return t, err
}

// PutTask implements task.Store.
func (db *DB) PutTask(ctx context.Context, t task.Task) error {
	if err := checkName("id of a task", t.ID); err != nil {
		return err
	}
	t.Created, t.Updated, t.Deadline = t.Created.UTC(), t.Updated.UTC(), t.Deadline.UTC()
	payload, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode task %s: %w", t.ID, err)
	}
	return db.update(ctx, func(tx *bolt.Tx) error { return put(tx, bucketTasks, []byte(t.ID), payload) })
}

// DeleteTask implements task.Store. It works on damaged records too.
func (db *DB) DeleteTask(ctx context.Context, id string) error {
	return db.update(ctx, func(tx *bolt.Tx) error {
		_, err := remove(tx, bucketTasks, []byte(id))
		return err
	})
}
