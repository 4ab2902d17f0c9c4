-- How far a person's yes goes.
ALTER TABLE approvals ADD COLUMN terms_json TEXT NULL;
