CREATE TABLE runs (
  run_id TEXT PRIMARY KEY,
  created_at TEXT NOT NULL,
  goal TEXT NOT NULL,
  status TEXT NOT NULL,
  iteration INTEGER NOT NULL DEFAULT 0,
  current_step_index INTEGER NOT NULL DEFAULT 0,
  verdict TEXT NULL,
  run_dir TEXT NOT NULL,
  -- beyond the first document: the canonical state and what the views show
  id TEXT NOT NULL UNIQUE,
  state TEXT NOT NULL,
  reason TEXT NULL,
  message TEXT NULL,
  ended_at TEXT NULL,
  base TEXT NOT NULL,
  result TEXT NULL,
  landing_json TEXT NULL,
  task_id INTEGER NULL,
  parent TEXT NULL,
  sandbox TEXT NOT NULL,
  sealed INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX runs_unsealed ON runs(run_id) WHERE sealed = 0;
CREATE INDEX runs_by_task ON runs(task_id, run_id);

CREATE TABLE steps (
  run_id TEXT NOT NULL REFERENCES runs(run_id) ON DELETE CASCADE,
  step_index INTEGER NOT NULL,
  role TEXT NOT NULL,
  iteration INTEGER NOT NULL,
  status TEXT NOT NULL,
  step_dir TEXT NOT NULL,
  started_at TEXT NOT NULL,
  ended_at TEXT NULL,
  summary TEXT NULL,
  attempt INTEGER NOT NULL DEFAULT 1,
  reason TEXT NULL,
  PRIMARY KEY (run_id, step_index)
) WITHOUT ROWID;

-- A rowid table: what is appended together goes to one end, whichever run it belongs to.
CREATE TABLE events (
  run_id TEXT NOT NULL REFERENCES runs(run_id) ON DELETE CASCADE,
  seq INTEGER NOT NULL,
  ts TEXT NOT NULL,
  type TEXT NOT NULL,
  message TEXT NOT NULL,
  data_json TEXT NULL,
  line TEXT NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (run_id, seq)
);

CREATE TABLE audit (
  seq INTEGER PRIMARY KEY,
  ts TEXT NOT NULL,
  type TEXT NOT NULL,
  data_json TEXT NOT NULL,
  line TEXT NOT NULL,
  hash TEXT NOT NULL
);

CREATE TABLE kv_run (
  run_id TEXT NOT NULL REFERENCES runs(run_id) ON DELETE CASCADE,
  key TEXT NOT NULL,
  value_json TEXT NOT NULL,
  PRIMARY KEY (run_id, key)
) WITHOUT ROWID;

CREATE TABLE tasks (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  title TEXT NOT NULL,
  status TEXT NOT NULL,
  run_id TEXT NULL REFERENCES runs(run_id) ON DELETE SET NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  goal TEXT NOT NULL DEFAULT '',
  acceptance_criteria_json TEXT NOT NULL DEFAULT '[]'
);

CREATE TABLE task_edges (
  task_id INTEGER NOT NULL REFERENCES tasks(id) ON DELETE CASCADE,
  depends_on_id INTEGER NOT NULL REFERENCES tasks(id) ON DELETE CASCADE,
  PRIMARY KEY (task_id, depends_on_id)
) WITHOUT ROWID;

-- Files of committed directories; small ones with their bytes until the run is sealed and synced.
CREATE TABLE artifacts (
  run_id TEXT NOT NULL REFERENCES runs(run_id) ON DELETE CASCADE,
  dir TEXT NOT NULL,
  path TEXT NOT NULL,
  size INTEGER NOT NULL,
  blake3 TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  bytes BLOB NULL,
  PRIMARY KEY (run_id, dir, path)
);

CREATE TRIGGER events_no_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER events_no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
