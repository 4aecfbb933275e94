-- The log is the truth; every other table is found from it again or is a cache of it.

CREATE TABLE sessions (
    id             TEXT    NOT NULL PRIMARY KEY,
    head_seq       INTEGER NOT NULL CHECK (head_seq > 0),
    kinds          TEXT    NOT NULL CHECK (json_valid(kinds)),
    core           TEXT    NOT NULL CHECK (json_valid(core)),
    lease          TEXT             CHECK (lease IS NULL OR json_valid(lease)),
    wake_at        INTEGER,
    -- Copies of what the state says, for lists.
    workspace      TEXT    NOT NULL,
    title          TEXT,
    agent          TEXT    NOT NULL,
    mode           TEXT    NOT NULL,
    goal_status    TEXT,
    plan_id        TEXT,
    plan_revision  INTEGER,
    plan_title     TEXT,
    plan_completed INTEGER,
    plan_total     INTEGER,
    plan_active    TEXT,
    plan_closed    INTEGER,
    updated_at     INTEGER NOT NULL
) STRICT;

CREATE INDEX sessions_by_update ON sessions (updated_at, id);
CREATE INDEX sessions_by_workspace ON sessions (workspace, updated_at, id);
CREATE INDEX sessions_due ON sessions (wake_at, id) WHERE wake_at IS NOT NULL;
CREATE INDEX sessions_due_by_workspace ON sessions (workspace, wake_at, id) WHERE wake_at IS NOT NULL;

CREATE TABLE events (
    session_id  TEXT    NOT NULL REFERENCES sessions (id),
    seq         INTEGER NOT NULL CHECK (seq > 0),
    at          INTEGER NOT NULL,
    actor       TEXT    NOT NULL CHECK (json_valid(actor)),
    kind        TEXT    NOT NULL,
    version     INTEGER NOT NULL CHECK (version > 0),
    payload     TEXT    NOT NULL CHECK (json_valid(payload)),
    command_key TEXT,
    PRIMARY KEY (session_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER events_are_append_only BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'the log is append-only');
END;

-- Which event holds which revision of a plan, and which closed one.
CREATE TABLE plan_rows (
    session_id TEXT    NOT NULL,
    lane       TEXT    NOT NULL,
    seq        INTEGER NOT NULL,
    plan_id    TEXT    NOT NULL,
    revision   INTEGER NOT NULL,
    change     TEXT    NOT NULL CHECK (change IN ('revised', 'closed')),
    PRIMARY KEY (session_id, lane, seq),
    UNIQUE (session_id, lane, plan_id, revision, change),
    FOREIGN KEY (session_id, seq) REFERENCES events (session_id, seq)
) STRICT, WITHOUT ROWID;

-- Every Goal that a session ever opened.
CREATE TABLE goal_rows (
    session_id TEXT    NOT NULL,
    goal_id    TEXT    NOT NULL,
    opened_seq INTEGER NOT NULL,
    PRIMARY KEY (session_id, goal_id),
    FOREIGN KEY (session_id, opened_seq) REFERENCES events (session_id, seq)
) STRICT, WITHOUT ROWID;

-- What each accepted command key caused: the events from first_seq to last_seq, none if last_seq is the smaller.
CREATE TABLE command_keys (
    session_id  TEXT    NOT NULL REFERENCES sessions (id),
    command_key TEXT    NOT NULL,
    payload     TEXT    NOT NULL,
    first_seq   INTEGER NOT NULL,
    last_seq    INTEGER NOT NULL CHECK (last_seq >= first_seq - 1),
    PRIMARY KEY (session_id, command_key)
) STRICT, WITHOUT ROWID;

-- Texts too long for the log, found by their SHA-256.
CREATE TABLE blobs (
    digest TEXT NOT NULL PRIMARY KEY,
    bytes  BLOB NOT NULL
) STRICT;

-- For people with sqlite3.

CREATE VIEW timeline AS
SELECT session_id,
       seq,
       strftime('%Y-%m-%dT%H:%M:%fZ', at / 1000.0, 'unixepoch') AS at,
       actor ->> '$.type' AS by,
       kind,
       payload
FROM events;

CREATE VIEW plan_revisions AS
SELECT p.session_id,
       p.lane,
       p.plan_id,
       p.revision,
       p.seq,
       strftime('%Y-%m-%dT%H:%M:%fZ', e.at / 1000.0, 'unixepoch') AS at,
       e.actor ->> '$.type' AS by,
       p.change,
       e.payload ->> '$.plan.title' AS title,
       CASE p.change WHEN 'revised' THEN
           (SELECT count(*) FROM json_each(e.payload, '$.plan.steps') AS step
             WHERE step.value ->> '$.status' = 'completed')
       END AS completed,
       json_array_length(e.payload, '$.plan.steps') AS total,
       (SELECT step.value ->> '$.id' FROM json_each(e.payload, '$.plan.steps') AS step
         WHERE step.value ->> '$.status' = 'in_progress') AS active,
       coalesce(e.payload ->> '$.plan.explanation', e.payload ->> '$.reason') AS explanation
FROM plan_rows AS p
JOIN events AS e ON e.session_id = p.session_id AND e.seq = p.seq;

CREATE VIEW goals AS
SELECT g.session_id,
       g.goal_id,
       strftime('%Y-%m-%dT%H:%M:%fZ', opened.at / 1000.0, 'unixepoch') AS opened_at,
       opened.payload ->> '$.objective' AS objective,
       coalesce(
           (SELECT moved.payload ->> '$.to.status' FROM events AS moved
             WHERE moved.session_id = g.session_id AND moved.kind = 'goal_moved'
               AND moved.payload ->> '$.goal_id' = g.goal_id
             ORDER BY moved.seq DESC LIMIT 1),
           opened.payload ->> '$.status.status') AS status,
       (SELECT count(*) FROM events AS turn
         WHERE turn.session_id = g.session_id AND turn.kind = 'turn_started'
           AND turn.payload ->> '$.trigger.goal_id' = g.goal_id) AS continuations
FROM goal_rows AS g
JOIN events AS opened ON opened.session_id = g.session_id AND opened.seq = g.opened_seq;

CREATE VIEW turns AS
SELECT started.session_id,
       started.payload ->> '$.turn' AS turn,
       started.payload ->> '$.lane' AS lane,
       started.payload ->> '$.agent' AS agent,
       started.payload ->> '$.model' AS model,
       started.payload ->> '$.trigger.type' AS trigger,
       strftime('%Y-%m-%dT%H:%M:%fZ', started.at / 1000.0, 'unixepoch') AS started_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', ended.at / 1000.0, 'unixepoch') AS ended_at,
       CASE ended.kind
           WHEN 'turn_lost' THEN 'lost'
           WHEN 'turn_ended' THEN ended.payload ->> '$.outcome.type'
           ELSE 'running'
       END AS outcome
FROM events AS started
LEFT JOIN events AS ended
    ON ended.session_id = started.session_id
   AND ended.kind IN ('turn_ended', 'turn_lost')
   AND ended.payload ->> '$.turn' = started.payload ->> '$.turn'
WHERE started.kind = 'turn_started';
