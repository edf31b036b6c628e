-- Version 3. {s} is the quoted name of the schema.

CREATE TABLE {s}.versions (
	version    integer PRIMARY KEY, -- of the schema
	min_writer integer NOT NULL,    -- the oldest version of the driver that may write
	applied    timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- A key of an owner keeps the highest gen it has given, to deleted sessions too. The
-- names are only in the sessions.
CREATE TABLE {s}.keys (
	agent text COLLATE "C" NOT NULL,
	hash  bytea NOT NULL, -- SHA-256 of the owner and the name
	gen   bigint NOT NULL,
	PRIMARY KEY (agent, hash)
);

CREATE SEQUENCE {s}.bodies;

CREATE TABLE {s}.sessions (
	agent      text COLLATE "C" NOT NULL,
	id         text COLLATE "C" NOT NULL,
	body       bigint NOT NULL UNIQUE DEFAULT nextval('{s}.bodies'), -- names the lines; a rewrite gives another one
	lines      bigint NOT NULL,
	bytes      bigint NOT NULL, -- of the lines with their newlines, before any compression
	owner      bytea NOT NULL, -- empty if there is none; text may hold no NUL
	key        bytea NOT NULL,
	key_hash   bytea NOT NULL,
	gen        bigint NOT NULL, -- 0 is never current
	rev        integer NOT NULL,
	archived   boolean NOT NULL DEFAULT false,
	updated_s  bigint NOT NULL, -- of the row: seconds and nanoseconds
	updated_ns integer NOT NULL,
	row        bytea NOT NULL, -- JSON
	turn       text,          -- who holds the turn lock
	turn_until timestamptz,
	fence      bigint NOT NULL DEFAULT 0, -- grows with each turn
	PRIMARY KEY (agent, id)
) WITH (fillfactor = 70); -- most updates touch no index and find room beside the row
CREATE INDEX sessions_newest ON {s}.sessions (agent, updated_s DESC, updated_ns DESC, id DESC);
CREATE INDEX sessions_key ON {s}.sessions (agent, key_hash, gen DESC);

CREATE TABLE {s}.lines (
	body bigint NOT NULL,
	seq  bigint NOT NULL, -- 1 is the header
	id   text NOT NULL,
	data bytea NOT NULL,
	PRIMARY KEY (body, seq)
);

-- The lines of an archived session: gzip of lines with their newlines.
CREATE TABLE {s}.blocks (
	body  bigint NOT NULL,
	first bigint NOT NULL,
	last  bigint NOT NULL,
	data  bytea NOT NULL,
	PRIMARY KEY (body, first)
);

-- Attempts at a write that were given up when their connection was lost. One that
-- still waits inside the server finds itself here, and writes nothing.
CREATE TABLE {s}.revoked (
	attempt uuid PRIMARY KEY,
	at      timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What the lines of a session leave out, such as images. A blob goes with its session,
-- and those of a fork are there before it.
CREATE TABLE {s}.blobs (
	agent text COLLATE "C" NOT NULL,
	id    text COLLATE "C" NOT NULL,
	hash  bytea NOT NULL, -- SHA-256 of data
	data  bytea NOT NULL,
	PRIMARY KEY (agent, id, hash)
);
ALTER TABLE {s}.blobs ALTER data SET STORAGE EXTERNAL; -- most are compressed already

-- Sessions that are about to be made, and may have blobs already.
CREATE TABLE {s}.unborn (
	agent text COLLATE "C" NOT NULL,
	id    text COLLATE "C" NOT NULL,
	at    timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (agent, id)
);

-- The files of memories. A version is the attempt that has written the file.
CREATE TABLE {s}.files (
	name    text COLLATE "C" PRIMARY KEY,
	version uuid NOT NULL,
	data    bytea NOT NULL
);

-- The locks of folders of files. A name is hashed, because it may be a person's.
CREATE TABLE {s}.locks (
	folder bytea PRIMARY KEY, -- SHA-256
	holder uuid NOT NULL,     -- another one each time
	until  timestamptz NOT NULL
);

-- Moves with every change; a poller compares it.
CREATE SEQUENCE {s}.changes;

-- insert_lines adds lines to a body that is locked or not yet visible.
CREATE FUNCTION {s}.insert_lines(
	p_body bigint, p_start bigint, p_ids text[], p_data bytea[]
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	INSERT INTO {s}.lines (body, seq, id, data)
		SELECT p_body, p_start + n, i, d FROM unnest(p_ids, p_data) WITH ORDINALITY AS l(i, d, n);
	PERFORM nextval('{s}.changes');
END $$;

-- append is one append: lock, look, write. It returns the outcome, the body, and the places
-- before and after the lines; only 'ok' has written.
CREATE FUNCTION {s}.append(
	p_agent text, p_id text, p_body bigint, p_fence bigint, p_sync text, p_wait text, p_attempt uuid,
	p_at bigint, p_ids text[], p_data bytea[], p_bytes bigint
) RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	s record;
	v_end bigint;
	v_change bigint;
	v_status text;
BEGIN
	PERFORM set_config('synchronous_commit', p_sync, true), set_config('lock_timeout', p_wait, true);
	SELECT t.ctid, t.body, t.lines, t.archived, t.fence, t.turn_until INTO s
		FROM {s}.sessions t WHERE t.agent = p_agent AND t.id = p_id FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RETURN 'gone';
	END IF;
	v_end := s.lines + cardinality(p_data);
	v_status := CASE
		WHEN s.archived THEN 'archived'
		WHEN p_body <> 0 AND p_body <> s.body THEN 'replaced'
		WHEN p_fence <> 0 AND (p_fence <> s.fence OR s.turn_until IS NULL OR s.turn_until < clock_timestamp()) THEN 'fenced'
		WHEN p_at >= 0 AND p_at <> s.lines THEN 'conflict'
		WHEN v_end > {max} THEN 'full'
		ELSE 'ok' END;
	IF v_status = 'ok' THEN
		UPDATE {s}.sessions t SET lines = v_end, bytes = t.bytes + p_bytes
			WHERE t.ctid = s.ctid -- it is locked, so it has not moved
				AND NOT EXISTS (SELECT FROM {s}.revoked r WHERE r.attempt = p_attempt);
		IF NOT FOUND THEN
			v_status := 'revoked';
		ELSIF cardinality(p_data) = 1 THEN -- most are, and this is cheaper
			INSERT INTO {s}.lines (body, seq, id, data) VALUES (s.body, v_end, p_ids[1], p_data[1]);
			v_change := nextval('{s}.changes');
		ELSE
			PERFORM {s}.insert_lines(s.body, s.lines, p_ids, p_data);
		END IF;
	END IF;
	RETURN concat_ws(' ', v_status, s.body, s.lines, v_end);
END $$;

-- create makes a session if its key has given gen p_gen - 1 last, or p_gen is 0, or p_given
-- is set and no session of the key has p_gen, and the session p_base has the rev p_base_rev, which is NULL if it does not matter.
CREATE FUNCTION {s}.create(
	p_agent text, p_id text, p_owner bytea, p_key bytea, p_key_hash bytea, p_gen bigint, p_rev integer, p_sync text, p_wait text,
	p_updated_s bigint, p_updated_ns integer, p_row bytea, p_only_first boolean,
	p_ids text[], p_data bytea[], p_bytes bigint, p_base text, p_base_rev integer, p_given boolean,
	OUT o_status text, OUT o_body bigint
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	v_gen bigint;
BEGIN
	PERFORM set_config('synchronous_commit', p_sync, true), set_config('lock_timeout', p_wait, true);
	INSERT INTO {s}.keys (agent, hash, gen) VALUES (p_agent, p_key_hash, 0) ON CONFLICT DO NOTHING;
	SELECT k.gen INTO v_gen FROM {s}.keys k WHERE k.agent = p_agent AND k.hash = p_key_hash FOR NO KEY UPDATE;
	IF p_given THEN
		IF EXISTS (SELECT FROM {s}.sessions t WHERE t.agent = p_agent AND t.key_hash = p_key_hash AND t.gen = p_gen) THEN
			o_status := 'taken';
			RETURN;
		END IF;
	ELSIF p_gen > 0 AND (v_gen <> p_gen - 1 OR p_only_first AND EXISTS (
		SELECT FROM {s}.sessions t WHERE t.agent = p_agent AND t.key_hash = p_key_hash AND t.gen > 0 AND NOT t.archived)) THEN
		o_status := 'again';
		RETURN;
	END IF;
	IF p_base_rev IS NOT NULL THEN
		PERFORM FROM {s}.sessions t WHERE t.agent = p_agent AND t.id = p_base AND t.rev = p_base_rev FOR SHARE;
		IF NOT FOUND THEN
			o_status := 'replaced';
			RETURN;
		END IF;
	END IF;
	INSERT INTO {s}.sessions (agent, id, lines, bytes, owner, key, key_hash, gen, rev, updated_s, updated_ns, row)
		VALUES (p_agent, p_id, cardinality(p_data), p_bytes, p_owner, p_key, p_key_hash, p_gen, p_rev, p_updated_s, p_updated_ns, p_row)
		ON CONFLICT (agent, id) DO NOTHING RETURNING body INTO o_body;
	IF o_body IS NULL THEN
		o_status := 'exists';
		RETURN;
	END IF;
	PERFORM {s}.insert_lines(o_body, 0, p_ids, p_data);
	DELETE FROM {s}.unborn u WHERE u.agent = p_agent AND u.id = p_id;
	UPDATE {s}.keys k SET gen = greatest(k.gen, p_gen) WHERE k.agent = p_agent AND k.hash = p_key_hash;
	o_status := 'ok';
END $$;

-- set_current gives a session the highest gen of its key, and a line that says so; without
-- a line at least p_gen, unless another session of the key has it.
CREATE FUNCTION {s}.set_current(
	p_agent text, p_id text, p_gen bigint, p_sync text, p_wait text, p_line_id text, p_data bytea,
	OUT o_status text
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	v_hash bytea;
	v_gen  bigint;
	s      record;
BEGIN
	PERFORM set_config('synchronous_commit', p_sync, true), set_config('lock_timeout', p_wait, true);
	SELECT t.key_hash INTO v_hash FROM {s}.sessions t WHERE t.agent = p_agent AND t.id = p_id;
	SELECT k.gen INTO v_gen FROM {s}.keys k WHERE k.agent = p_agent AND k.hash = v_hash FOR NO KEY UPDATE;
	SELECT t.body, t.lines, t.archived INTO s
		FROM {s}.sessions t WHERE t.agent = p_agent AND t.id = p_id FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		o_status := 'gone';
	ELSIF s.archived THEN
		o_status := 'archived';
	ELSIF p_data IS NULL THEN
		IF EXISTS (SELECT FROM {s}.sessions t WHERE t.agent = p_agent AND t.key_hash = v_hash AND t.gen = p_gen AND t.id <> p_id) THEN
			o_status := 'taken';
			RETURN;
		END IF;
		UPDATE {s}.sessions t SET gen = greatest(t.gen, p_gen) WHERE t.agent = p_agent AND t.id = p_id;
		UPDATE {s}.keys k SET gen = greatest(k.gen, p_gen) WHERE k.agent = p_agent AND k.hash = v_hash;
		PERFORM nextval('{s}.changes');
		o_status := 'ok';
	ELSIF v_gen <> p_gen - 1 THEN
		o_status := 'again';
	ELSIF s.lines >= {max} THEN
		o_status := 'full';
	ELSE
		PERFORM {s}.insert_lines(s.body, s.lines, ARRAY[p_line_id], ARRAY[p_data]);
		UPDATE {s}.sessions t SET lines = s.lines + 1, bytes = t.bytes + octet_length(p_data) + 1, gen = p_gen WHERE t.agent = p_agent AND t.id = p_id;
		UPDATE {s}.keys k SET gen = p_gen WHERE k.agent = p_agent AND k.hash = v_hash;
		o_status := 'ok';
	END IF;
END $$;

-- remove deletes a session whose row is locked, or locks it.
CREATE FUNCTION {s}.remove(p_agent text, p_id text, p_sync text, p_wait text) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	v_body bigint;
BEGIN
	PERFORM set_config('synchronous_commit', p_sync, true), set_config('lock_timeout', p_wait, true);
	DELETE FROM {s}.sessions t WHERE t.agent = p_agent AND t.id = p_id RETURNING t.body INTO v_body;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	DELETE FROM {s}.lines l WHERE l.body = v_body;
	DELETE FROM {s}.blocks k WHERE k.body = v_body;
	DELETE FROM {s}.blobs b WHERE b.agent = p_agent AND b.id = p_id;
	PERFORM nextval('{s}.changes');
	RETURN true;
END $$;

-- write_file writes or, without data, removes a file and those below it, while the
-- locks that the writer holds last. An attempt that was revoked, or is being revoked,
-- fails: its name is in use.
CREATE FUNCTION {s}.write_file(
	p_name text, p_attempt uuid, p_data bytea, p_new boolean, p_sync text, p_wait text, p_folders bytea[], p_holders uuid[]
) RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	v_held bigint;
BEGIN
	PERFORM set_config('synchronous_commit', p_sync, true), set_config('lock_timeout', p_wait, true);
	INSERT INTO {s}.revoked (attempt) VALUES (p_attempt);
	DELETE FROM {s}.revoked r WHERE r.attempt = p_attempt;
	PERFORM FROM {s}.locks l JOIN unnest(p_folders, p_holders) AS h(folder, holder) ON l.folder = h.folder AND l.holder = h.holder
		WHERE l.until > clock_timestamp() ORDER BY l.folder FOR SHARE OF l;
	GET DIAGNOSTICS v_held = ROW_COUNT;
	IF v_held < cardinality(p_folders) THEN
		RETURN 'unlocked';
	END IF;
	IF p_data IS NULL THEN
		DELETE FROM {s}.files f WHERE f.name = p_name OR f.name > p_name || '/' AND f.name < p_name || '0'; -- which follows the slash
	ELSIF p_new THEN
		INSERT INTO {s}.files (name, version, data) VALUES (p_name, p_attempt, p_data) ON CONFLICT DO NOTHING;
		IF NOT FOUND THEN
			RETURN 'made';
		END IF;
	ELSE
		INSERT INTO {s}.files (name, version, data) VALUES (p_name, p_attempt, p_data)
			ON CONFLICT (name) DO UPDATE SET version = excluded.version, data = excluded.data;
	END IF;
	RETURN 'ok';
END $$;

-- revoke has an attempt end or fail.
CREATE FUNCTION {s}.revoke(p_attempt uuid) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	DELETE FROM {s}.revoked r WHERE r.at < clock_timestamp() - interval '7 days';
	INSERT INTO {s}.revoked (attempt) VALUES (p_attempt) ON CONFLICT DO NOTHING;
END $$;

-- look says where a line is, once nobody else writes to the session: the answer to
-- a COMMIT that nobody heard. If the line is not there the attempt to write it is
-- revoked. The UPDATE changes nothing, but fails an attempt that has waited for the
-- lock with an older snapshot, as the isolation levels above READ COMMITTED take one.
CREATE FUNCTION {s}.look(
	p_agent text, p_id text, p_line_id text, p_data bytea, p_attempt uuid,
	OUT o_body bigint, OUT o_seq bigint, OUT o_archived boolean
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	UPDATE {s}.sessions t SET lines = t.lines WHERE t.agent = p_agent AND t.id = p_id RETURNING t.body, t.archived INTO o_body, o_archived;
	SELECT max(l.seq) INTO o_seq FROM {s}.lines l WHERE l.body = o_body AND l.id = p_line_id AND l.data = p_data;
	IF o_seq IS NULL AND p_attempt IS NOT NULL THEN
		PERFORM {s}.revoke(p_attempt);
	END IF;
END $$;
