-- The items of runs: what became of each, and the receipt of its change.
CREATE TABLE items (
  run_id TEXT NOT NULL REFERENCES runs(run_id) ON DELETE CASCADE,
  place INTEGER NOT NULL,
  task_id TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  status TEXT NULL,
  reason TEXT NULL,
  message TEXT NULL,
  receipt_id TEXT NULL,
  content_hash TEXT NULL,
  commit_id TEXT NULL,
  ended_at TEXT NULL,
  PRIMARY KEY (run_id, place)
) WITHOUT ROWID;
-- Whether a change was made before is asked of every change that is about to land.
CREATE INDEX items_by_content ON items(content_hash) WHERE commit_id IS NOT NULL;
