package store

// remedies say what a damaged record costs, and what mends it: command lines
// where there are any.
var remedies = map[string]string{
	bucketMeta:          "only a backup brings the name of the instance back; the time is written anew by itself",
	bucketTokens:        "a damaged token is refused: token revoke NAME removes what is left of it, token create NAME makes a new one",
	bucketAnnouncements: "what a damaged announcement announced is announced no longer: announce it again; the record stays and does no harm",
	bucketAudit:         "nothing writes an audit record again: a damaged one stays until it is removed for its age or number, and those around it can be read",
	bucketAuditHead:     "where the audit chain begins and ends is written anew with the next record that is removed or added",
	bucketRevisions:     "an earlier damaged revision stays, and nothing but going back to it needs it; if it is the newest, request config rollback NUMBER or config import FILE puts another one in front of it",
	bucketCandidates:    "its owner drops a damaged candidate with: request config discard",
	bucketConfirm:       "the commit stays as if it were confirmed, and the next one removes the record",
	bucketTasks:         "a damaged task is unknown to whoever waits for it: run its command again; the record stays and does no harm",
	bucketBlobs:         "blob put NAME writes a blob again, blob rm NAME removes it",
}

// remedyOf maps the second of two buckets that hold one kind to the first.
var remedyOf = map[string]string{
	bucketTokenNames: bucketTokens, bucketRevisionTexts: bucketRevisions,
	bucketCandidateTexts: bucketCandidates, bucketBlobData: bucketBlobs,
}

// remedy returns what to do about a damaged record of a bucket.
func remedy(bucket string) string {
	if first, ok := remedyOf[bucket]; ok {
		bucket = first
	}
	return remedies[bucket]
}
