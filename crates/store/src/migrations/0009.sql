-- Small files outside of any run's directory that facts of a run rely on, such as git objects: their bytes are in the commit
-- that names them, and leave the database when the run is sealed, since they are on the disk by then.
CREATE TABLE kept (
  run_id TEXT NOT NULL REFERENCES runs(run_id) ON DELETE CASCADE,
  path TEXT NOT NULL,
  bytes BLOB NOT NULL,
  PRIMARY KEY (run_id, path)
) WITHOUT ROWID;
