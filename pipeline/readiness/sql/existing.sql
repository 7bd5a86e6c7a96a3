-- one row per object that exists at the end of the window, of the resources in `wanted`: (cluster, api_group, resource, namespace, name)
-- api_version: of the recorded body, without its group
-- version_ts: when the last version was recorded
-- written_ts: the last write of the object itself, that is of no subresource; null where none is recorded
-- writer, writer_groups: who wrote it then; null likewise
-- object: JSON of the last version; null where it changed afterwards and the log does not show how (`unknown` says why)
--
-- An object that is being deleted is left out: it will not be written again on purpose. A write of its status that was recorded without
-- a body leaves the last version standing, with a status that may be older. A code below 400 alone says that a request was allowed.
CREATE OR REPLACE TEMP TABLE existing AS
WITH writes AS (
    SELECT
        r.cluster, r.audit_id, r.ts, r.stage_ts, r.api_group, r.api_version, r.resource, coalesce(r.subresource, '') AS subresource,
        object_place(r.api_group, r.resource, r.namespace) AS namespace,
        object_name(r.name, r.verb, r.response_object) AS name,
        r.verb, r.user_name, r.user_groups,
        -- The kind stands first in every body that the server encodes.
        coalesce(regexp_extract(left(r.response_object::VARCHAR, 200), '"kind"\s*:\s*"([^"]*)"', 1), '') AS answer_kind
    FROM folded_requests AS r
    SEMI JOIN wanted AS w ON w.cluster = r.cluster AND w.api_group = r.api_group AND w.resource = r.resource
    WHERE r.code BETWEEN 1 AND 299 AND r.verb IN ('create', 'update', 'patch', 'delete')
        AND coalesce(r.subresource, '') IN ('', 'status', 'scale', 'resize', 'ephemeralcontainers', 'finalize', 'approval')
        AND NOT regexp_matches(r.request_uri, '[?&]dryRun=[^&]')
        AND ($until IS NULL OR r.ts < $until)
),
-- What a deletecollection deleted is named by its answer; without one any object in its reach may be gone.
swept AS (
    SELECT r.cluster, r.api_group, r.resource, coalesce(r.namespace, '') AS namespace, r.stage_ts, r.audit_id, r.ts,
        r.response_object -> '$.items[*]' AS items, r.response_object IS NULL AS is_silent
    FROM folded_requests AS r
    SEMI JOIN wanted AS w ON w.cluster = r.cluster AND w.api_group = r.api_group AND w.resource = r.resource
    WHERE r.verb = 'deletecollection' AND r.code BETWEEN 1 AND 399 AND ($until IS NULL OR r.ts < $until)
),
steps AS (
    SELECT
        cluster, api_group, resource, namespace, name, stage_ts, audit_id, ts, api_version,
        CASE
            WHEN verb = 'delete' THEN 'gone'
            WHEN answer_kind = '' AND subresource IN ('status', 'approval') THEN 'elsewhere' -- what a policy asks about is elsewhere
            WHEN answer_kind = '' OR answer_kind IN ('Status', 'Table', 'PartialObjectMetadata') OR subresource = 'scale' THEN 'opaque'
            ELSE 'whole'
        END AS step,
        CASE WHEN subresource = '' THEN ts END AS written_ts,
        user_name, user_groups, NULL::JSON AS object
    FROM writes
    UNION ALL
    SELECT
        cluster, api_group, resource, coalesce(item ->> '$.metadata.namespace', ''), item ->> '$.metadata.name', stage_ts, audit_id, ts,
        '', 'gone', NULL, NULL, NULL, NULL
    FROM (SELECT * EXCLUDE (items), unnest(items) AS item FROM swept WHERE items IS NOT NULL)
    UNION ALL
    SELECT
        o.cluster, w.api_group, w.resource, coalesce(o.namespace, ''), o.name, o.observed_ts, o.source, o.observed_ts,
        split_part(o.api_version, '/', -1), 'listed', NULL, NULL, NULL, o.object
    FROM objects AS o
    JOIN wanted AS w ON w.cluster = o.cluster AND w.kind = o.kind
        AND w.api_group = CASE WHEN contains(o.api_version, '/') THEN split_part(o.api_version, '/', 1) ELSE '' END
    WHERE $until IS NULL OR o.observed_ts < $until
),
-- A later snapshot of a kind that does not list an object says that it is gone.
listings AS (
    SELECT cluster, api_group, resource, max(stage_ts) AS listed_ts FROM steps WHERE step = 'listed' GROUP BY ALL
),
folded AS (
    SELECT
        cluster, api_group, resource, namespace, name,
        arg_max(step, (stage_ts, audit_id)) AS last_step,
        max(stage_ts) AS last_ts,
        arg_max(audit_id, (stage_ts, audit_id)) AS last_audit_id,
        max(stage_ts) FILTER (WHERE step IN ('whole', 'listed')) AS version_ts,
        arg_max(audit_id, (stage_ts, audit_id)) FILTER (WHERE step IN ('whole', 'listed')) AS version_audit_id,
        arg_max(ts, (stage_ts, audit_id)) FILTER (WHERE step IN ('whole', 'listed')) AS version_request_ts,
        arg_max(step, (stage_ts, audit_id)) FILTER (WHERE step IN ('whole', 'listed')) AS version_step,
        arg_max(api_version, (stage_ts, audit_id)) FILTER (WHERE step IN ('whole', 'listed')) AS api_version,
        arg_max(api_version, (stage_ts, audit_id)) FILTER (WHERE api_version <> '') AS any_api_version,
        arg_max(object, (stage_ts, audit_id)) FILTER (WHERE step = 'listed') AS listed_object,
        max(written_ts) AS written_ts,
        arg_max(user_name, written_ts) FILTER (WHERE written_ts IS NOT NULL) AS writer,
        arg_max(user_groups, written_ts) FILTER (WHERE written_ts IS NOT NULL) AS writer_groups
    FROM steps
    WHERE name <> '' AND step <> 'elsewhere'
    GROUP BY ALL
),
present AS (
    SELECT f.* REPLACE (coalesce(version_ts, last_ts) AS version_ts, coalesce(f.api_version, any_api_version) AS api_version)
    FROM folded AS f LEFT JOIN listings AS l USING (cluster, api_group, resource)
    WHERE last_step <> 'gone' AND (last_ts >= l.listed_ts OR l.listed_ts IS NULL)
),
bodied AS (
    SELECT
        p.*,
        CASE WHEN p.version_step = 'listed' THEN p.listed_object ELSE r.response_object END AS body,
        (
            SELECT max(s.stage_ts) FROM swept AS s
            WHERE s.is_silent AND s.cluster = p.cluster AND s.api_group = p.api_group AND s.resource = p.resource
                AND s.namespace IN (p.namespace, '') AND s.stage_ts > p.version_ts
        ) AS swept_ts
    FROM present AS p
    LEFT JOIN folded_requests AS r
        ON p.version_step = 'whole' AND r.cluster = p.cluster AND r.audit_id = p.version_audit_id AND r.ts = p.version_request_ts
    QUALIFY row_number() OVER (PARTITION BY p.cluster, p.api_group, p.resource, p.namespace, p.name ORDER BY r.stage_ts DESC) = 1
)
SELECT
    b.cluster, b.api_group, b.api_version, b.resource, w.kind, b.namespace, b.name, b.version_ts, b.written_ts, b.writer, b.writer_groups,
    CASE
        WHEN version_step = 'listed' THEN 'snapshot of ' || strftime(version_ts, '%Y-%m-%dT%H:%M:%SZ')
        ELSE 'response to ' || coalesce(version_audit_id, last_audit_id)
    END AS source,
    CASE WHEN last_step <> 'opaque' AND swept_ts IS NULL THEN body END AS object,
    CASE
        WHEN last_step = 'opaque' THEN 'changed by ' || last_audit_id || ', whose answer was not recorded whole'
        WHEN swept_ts IS NOT NULL THEN 'perhaps deleted by a deletecollection whose answer was not recorded'
    END AS unknown
FROM bodied AS b
JOIN (SELECT cluster, api_group, resource, max(kind) AS kind FROM wanted GROUP BY ALL) AS w USING (cluster, api_group, resource)
WHERE (body IS NOT NULL OR last_step = 'opaque') AND (body ->> '$.metadata.deletionTimestamp') IS NULL
