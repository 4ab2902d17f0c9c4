-- Whether a person took the run off the list.
ALTER TABLE runs ADD COLUMN unlisted INTEGER NOT NULL DEFAULT 0;
