package store

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"ze.internal/ze/appliance/bgp"
)

var _ bgp.Store = (*DB)(nil)

// announcementRecord is an announcement as it is kept. Its prefixes are one
// string, separated by spaces: 100,000 of them as JSON strings take several
// times as long to read.
type announcementRecord struct {
	bgp.Announcement
	Prefixes string `json:"prefixes"` // hides the field of Announcement
}

func encodePrefixes(prefixes []netip.Prefix) string {
	b := make([]byte, 0, len(prefixes)*20)
	for i, p := range prefixes {
		if i > 0 {
			b = append(b, ' ')
		}
		b = p.AppendTo(b)
	}
	return string(b)
}

func decodePrefixes(s string) ([]netip.Prefix, error) {
	if s == "" {
		return nil, nil
	}
	prefixes := make([]netip.Prefix, 0, strings.Count(s, " ")+1)
	for word := range strings.SplitSeq(s, " ") {
		p, err := netip.ParsePrefix(word)
		if err != nil {
			return nil, err
		}
		prefixes = append(prefixes, p)
	}
	return prefixes, nil
}

// Announcements implements bgp.Store.
func (db *DB) Announcements(ctx context.Context) ([]bgp.Announcement, error) {
	var all []bgp.Announcement
	err := db.view(ctx, func(tx *bolt.Tx) error {
		return db.each(tx, bucketAnnouncements, func(key, payload []byte) error {
			var r announcementRecord
			if err := unmarshal(bucketAnnouncements, key, payload, &r); err != nil {
				return err
			}
			prefixes, err := decodePrefixes(r.Prefixes)
			if err != nil {
				return badRecord(bucketAnnouncements, key, err.Error())
			}
			r.Announcement.Prefixes = prefixes
			all = append(all, r.Announcement)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	// Keys are ids, so this only needs to be stable.
	slices.SortStableFunc(all, func(a, b bgp.Announcement) int { return a.Created.Compare(b.Created) })
	return all, nil
}

// ReplaceAnnouncements implements bgp.Store. Ids in remove that are not there
// are ignored; an id in both put and remove is put.
func (db *DB) ReplaceAnnouncements(ctx context.Context, puts []bgp.Announcement, removes []string) error {
	payloads := make([][]byte, len(puts)) // made here: in the transaction others would wait for it
	for i, a := range puts {
		if err := checkName(fmt.Sprintf("id of announcement %d", i), a.ID); err != nil {
			return err
		}
		for j, p := range a.Prefixes {
			if !p.IsValid() {
				return fmt.Errorf("announcement %s: prefix %d: %w", a.ID, j, ErrInvalid)
			}
		}
		r := announcementRecord{Announcement: a, Prefixes: encodePrefixes(a.Prefixes)}
		r.Created, r.Expires = a.Created.UTC(), a.Expires.UTC()
		var err error
		if payloads[i], err = json.Marshal(r); err != nil {
			return fmt.Errorf("encode announcement %s: %w", a.ID, err)
		}
	}
	return db.update(ctx, func(tx *bolt.Tx) error {
		for _, id := range removes {
			if _, err := remove(tx, bucketAnnouncements, []byte(id)); err != nil {
				return err
			}
		}
		for i, a := range puts {
			if err := put(tx, bucketAnnouncements, []byte(a.ID), payloads[i]); err != nil {
				return err
			}
		}
		return nil
	})
}
