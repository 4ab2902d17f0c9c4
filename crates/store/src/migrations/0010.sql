-- What people say about lines of changes, and where they have drawn the graph of a run. Both are in the audit log.
CREATE TABLE comments (
  id TEXT PRIMARY KEY,
  run_id TEXT NOT NULL,
  change INTEGER NOT NULL,
  comment_json TEXT NOT NULL,
  by TEXT NOT NULL,
  at TEXT NOT NULL,
  sent_json TEXT NULL
);
CREATE INDEX comments_by_run ON comments(run_id, change);
CREATE TABLE arrangements (
  run_id TEXT PRIMARY KEY,
  moved_json TEXT NOT NULL,
  at TEXT NOT NULL
);
