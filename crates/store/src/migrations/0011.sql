-- The bytes of small files until their run is sealed, apart from the list of files: those of a directory in one row, one
-- after another in the order of their names, since a directory is committed and dropped whole.
CREATE TABLE copies (
  run_id TEXT NOT NULL REFERENCES runs(run_id) ON DELETE CASCADE,
  dir TEXT NOT NULL,
  bytes BLOB NOT NULL,
  PRIMARY KEY (run_id, dir)
) WITHOUT ROWID;
INSERT INTO copies (run_id, dir, bytes)
  SELECT run_id, dir, unhex(group_concat(hex(bytes), '' ORDER BY path)) FROM artifacts WHERE bytes IS NOT NULL GROUP BY run_id, dir;
CREATE TABLE listed_files (
  run_id TEXT NOT NULL REFERENCES runs(run_id) ON DELETE CASCADE,
  dir TEXT NOT NULL,
  path TEXT NOT NULL,
  size INTEGER NOT NULL,
  blake3 TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  PRIMARY KEY (run_id, dir, path)
) WITHOUT ROWID;
INSERT INTO listed_files SELECT run_id, dir, path, size, blake3, sha256 FROM artifacts;
DROP TABLE artifacts;
ALTER TABLE listed_files RENAME TO artifacts;
