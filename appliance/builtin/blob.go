package builtin

import (
	"context"
	"encoding/base64"
	"time"
	"unicode/utf8"

	"ze.internal/ze/appliance/command"
)

// Blobs keeps named bytes. Its errors say whether a blob is missing or too large.
type Blobs interface {
	Blobs(ctx context.Context) ([]Blob, error)
	Blob(ctx context.Context, name string) ([]byte, Blob, error)
	PutBlob(ctx context.Context, name string, data []byte) (Blob, error)
	DeleteBlob(ctx context.Context, name string) error
}

// Blob describes a blob.
type Blob struct {
	Name     string    `json:"name"`
	Digest   string    `json:"digest"` // hex SHA-256
	Size     int       `json:"size-bytes"`
	Modified time.Time `json:"modified"`
}

// Values of the parameter encoding.
const (
	encodingText   = "utf-8"
	encodingBase64 = "base64"
)

func (d Deps) blob(r runs) {
	r["blob-ls"] = func(ctx context.Context, _ *command.Request) (any, error) {
		blobs, err := d.Blobs.Blobs(ctx)
		if err != nil {
			return nil, err
		}
		return struct {
			Blobs []Blob `json:"blob"`
		}{append([]Blob{}, blobs...)}, nil
	}
	r["blob-cat"] = func(ctx context.Context, r *command.Request) (any, error) {
		var in struct {
			Name string `json:"name"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		data, blob, err := d.Blobs.Blob(ctx, in.Name)
		if err != nil {
			return nil, err
		}
		out := struct {
			Blob     `json:",inline"`
			Encoding string `json:"encoding"`
			Content  string `json:"content"`
		}{blob, encodingText, string(data)}
		if !utf8.Valid(data) {
			out.Encoding, out.Content = encodingBase64, base64.StdEncoding.EncodeToString(data)
		}
		return out, nil
	}
	r["blob-put"] = func(ctx context.Context, r *command.Request) (any, error) {
		var in struct {
			Name     string `json:"name"`
			Content  string `json:"content"`
			Encoding string `json:"encoding"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		data := []byte(in.Content)
		if in.Encoding == encodingBase64 {
			var err error
			if data, err = base64.StdEncoding.DecodeString(in.Content); err != nil {
				return nil, &command.Error{Code: command.Invalid, Field: "content", Message: "is not base64: " + err.Error(),
					Allowed: "base64 with padding, as AAEC/w==; or text, with encoding utf-8"}
			}
		}
		return d.Blobs.PutBlob(ctx, in.Name, data)
	}
	r["blob-rm"] = func(ctx context.Context, r *command.Request) (any, error) {
		var in struct {
			Name string `json:"name"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		if err := d.Blobs.DeleteBlob(ctx, in.Name); err != nil {
			return nil, err
		}
		return struct {
			Removed string `json:"removed"`
		}{in.Name}, nil
	}
}
