-- What people want, before anybody has begun with it, and the runs that carry it out.
CREATE TABLE intents (
  id TEXT PRIMARY KEY,
  created_at TEXT NOT NULL,
  created_by TEXT NOT NULL,
  document TEXT NOT NULL
);
CREATE TABLE intent_runs (
  run_id TEXT PRIMARY KEY,
  intent_id TEXT NOT NULL
);
CREATE INDEX intent_runs_by_intent ON intent_runs(intent_id, run_id);
