-- The last change of the repository is asked for whenever a run starts.
CREATE INDEX events_of_changes ON events(type) WHERE type IN ('item_ended', 'patch_applied');
