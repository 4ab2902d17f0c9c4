-- What programs were answered, by the key with which they may ask again. Without a status it is not known what came of it.
CREATE TABLE answers (
  key TEXT PRIMARY KEY,
  request TEXT NOT NULL,
  asked_at TEXT NOT NULL,
  status INTEGER NULL,
  body TEXT NULL
);
CREATE INDEX answers_by_age ON answers(asked_at);
