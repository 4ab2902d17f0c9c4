-- What a commit adds at the end of a table changes few pages; rows that are found by names are in the midst of others, and
-- each of them had its pages divided. So the list of files is a row for each directory, with the bytes of small ones beside
-- it under the same number, and only its name is in an index. `artifacts` shows the files one by one.
CREATE TABLE directories (
  id INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES runs(run_id) ON DELETE CASCADE,
  dir TEXT NOT NULL,
  files TEXT NOT NULL
);
INSERT INTO directories (run_id, dir, files)
  SELECT run_id, dir,
    json_group_array(json_object('path', path, 'size', size, 'blake3', blake3, 'sha256', sha256) ORDER BY path)
  FROM artifacts GROUP BY run_id, dir;
CREATE UNIQUE INDEX directories_by_name ON directories(run_id, dir);
CREATE TABLE numbered_copies (
  id INTEGER PRIMARY KEY REFERENCES directories(id) ON DELETE CASCADE,
  bytes BLOB NOT NULL
);
INSERT INTO numbered_copies SELECT id, bytes FROM copies JOIN directories USING (run_id, dir) ORDER BY id;
DROP TABLE copies;
ALTER TABLE numbered_copies RENAME TO copies;
DROP TABLE artifacts;
CREATE VIEW artifacts AS
  SELECT run_id, dir, value ->> 'path' AS path, value ->> 'size' AS size, value ->> 'blake3' AS blake3,
    value ->> 'sha256' AS sha256
  FROM directories, json_each(files);
