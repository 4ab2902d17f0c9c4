-- The graph of each run, part by part: 0 the run itself, 1 a node, 2 an edge, 3 an artifact, 4 an approval that is asked for.
CREATE TABLE graph (
  run_id TEXT NOT NULL REFERENCES runs(run_id) ON DELETE CASCADE,
  kind INTEGER NOT NULL,
  id TEXT NOT NULL,
  json TEXT NOT NULL,
  PRIMARY KEY (run_id, kind, id)
) WITHOUT ROWID;
