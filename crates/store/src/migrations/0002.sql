-- Questions to people, each about one run. `bound` is the digest of run, contract and reasons.
CREATE TABLE approvals (
  id TEXT PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES runs(run_id) ON DELETE CASCADE,
  reasons_json TEXT NOT NULL,
  bound TEXT NOT NULL,
  asked_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  decision TEXT NULL,
  decided_by TEXT NULL,
  reason TEXT NULL,
  answered_at TEXT NULL,
  used_at TEXT NULL
) WITHOUT ROWID;
CREATE INDEX approvals_by_bound ON approvals(bound);
