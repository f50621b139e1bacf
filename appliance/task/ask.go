package task

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"ze.internal/ze/appliance/command"
)

// asker asks for a run: the request that began it as long as that waits for its
// answer, and then whoever asks how the task is.
type asker struct {
	m *Manager
	j *job
}

// Ask implements command.Asker.
func (a asker) Ask(ctx context.Context, questions []command.Question) (map[string]json.RawMessage, error) {
	m, j := a.m, a.j
	m.mu.Lock()
	if !j.kept {
		j.passing = true
		parent := j.parent
		m.mu.Unlock()
		answers, err := command.Ask(parent, questions...)
		if err != nil {
			return nil, err // the command returns now, and the request with it
		}
		m.mu.Lock()
		j.passing = false
		maps.Copy(j.answers, answers)
		m.mu.Unlock()
		return answers, nil
	}
	defer m.mu.Unlock()
	var asked []command.Question
	names := make(map[string]string, len(questions)) // by key as it is sent
	for _, q := range questions {
		sent := q
		if j.task.Starts > 1 {
			sent.Key = fmt.Sprintf("%s-%d", q.Key, j.task.Starts) // no key twice in the life of a task
		}
		names[sent.Key] = q.Key
		if _, ok := j.answers[sent.Key]; ok {
			continue
		}
		if m.o.CanAnswer != nil && !m.o.CanAnswer(j.task.Call.Client, q) {
			delete(names, sent.Key)
			continue
		}
		asked = append(asked, sent)
	}
	if len(names) == 0 && len(questions) > 0 {
		return nil, &command.Error{Code: command.Conflict, Message: "the command asks its caller something that it has not said it can answer",
			Actions: []string{"call it from a client that can be asked"}}
	}
	if len(asked) > 0 {
		j.task.Questions = append(j.task.Questions, asked...)
		j.task.Status = InputRequired
		m.changed(j)
	}
	for {
		answers := map[string]json.RawMessage{}
		for sent, key := range names {
			if answer, ok := j.answers[sent]; ok {
				answers[key] = answer
			}
		}
		if len(answers) == len(names) {
			return answers, nil
		}
		answered := j.answered
		m.mu.Unlock()
		select {
		case <-answered:
		case <-ctx.Done():
		}
		m.mu.Lock()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// Answer hands a task the answers to what it asks, each as the method of its
// question defines it. Those to no question are ignored. ErrNoTask as for Get.
func (m *Manager) Answer(owner, id string, answers map[string]json.RawMessage) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	j, err := m.find(owner, id)
	if err != nil {
		return err
	}
	open := len(j.task.Questions)
	j.task.Questions = slices.DeleteFunc(slices.Clone(j.task.Questions), func(q command.Question) bool {
		answer, ok := answers[q.Key]
		if ok {
			j.answers[q.Key] = answer
		}
		return ok
	})
	if len(j.task.Questions) == open {
		return nil
	}
	if len(j.task.Questions) == 0 {
		j.task.Status = Working
	}
	m.changed(j)
	close(j.answered)
	j.answered = make(chan struct{})
	return nil
}
