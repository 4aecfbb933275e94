-- The lease of the running turn becomes one of several things that move without an event.
ALTER TABLE sessions RENAME COLUMN lease TO leases;
UPDATE sessions SET leases = json_object('turn', json(leases)) WHERE leases IS NOT NULL;

-- The calls that each Goal made, by the fingerprint of tool, arguments and exit status.
CREATE TABLE evidence_rows (
    session_id TEXT    NOT NULL,
    goal_id    TEXT    NOT NULL,
    call       TEXT    NOT NULL,
    seq        INTEGER NOT NULL,
    PRIMARY KEY (session_id, goal_id, call),
    FOREIGN KEY (session_id, seq) REFERENCES events (session_id, seq)
) STRICT, WITHOUT ROWID;
