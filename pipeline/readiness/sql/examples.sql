-- one row per step of the chain of controllers above each request in `examples`: (cluster, audit_id, ts, position)
-- position: 0 is the object of the request itself; the namespace comes last, at -1
-- step: as `Kind/name`
-- metadata: JSON of its metadata as last recorded, or of their `marks` in `subjects`; null where none was
WITH chains AS (
    SELECT s.cluster, s.audit_id, s.ts, s.namespace, s.user_agent, s.marks AS own, r.chain
    FROM examples AS e
    JOIN subjects AS s USING (cluster, audit_id, ts)
    JOIN roots AS r ON r.cluster = s.cluster AND r.namespace = s.namespace AND r.kind = s.kind AND r.name = s.name
),
steps AS (
    SELECT * EXCLUDE (chain), unnest(chain) AS step, generate_subscripts(chain, 1) - 1 AS position FROM chains
),
requested AS (
    SELECT s.cluster, s.namespace, s.kind || '/' || s.name AS step, arg_max(s.marks, s.ts) AS metadata
    FROM subjects AS s
    SEMI JOIN steps AS t ON t.cluster = s.cluster AND t.namespace = s.namespace AND t.step = s.kind || '/' || s.name
    WHERE s.is_whole
    GROUP BY ALL
),
namespaces AS (
    SELECT cluster, name, arg_max(metadata, ts) AS metadata
    FROM (
        SELECT e.cluster, e.name, e.ts, e.response_object -> '$.metadata' AS metadata
        FROM events AS e
        SEMI JOIN chains AS c ON c.cluster = e.cluster AND c.namespace = e.name
        WHERE e.resource = 'namespaces' AND e.api_group = '' AND e.stage = 'ResponseComplete' AND e.code < 300
            AND e.verb IN ('create', 'update', 'patch') AND (e.response_object ->> '$.kind') = 'Namespace'
        UNION ALL
        SELECT o.cluster, o.name, o.observed_ts, o.object -> '$.metadata'
        FROM objects AS o SEMI JOIN chains AS c ON c.cluster = o.cluster AND c.namespace = o.name
        WHERE o.kind = 'Namespace' AND o.api_version = 'v1'
    )
    GROUP BY ALL
)
SELECT
    t.cluster, t.audit_id, t.ts, t.position, t.step, t.user_agent,
    CASE WHEN t.position = 0 THEN coalesce(t.own, q.metadata) ELSE coalesce(q.metadata, c.metadata) END::VARCHAR AS metadata
FROM steps AS t
LEFT JOIN requested AS q USING (cluster, namespace, step)
LEFT JOIN controllers AS c ON c.cluster = t.cluster AND c.namespace = t.namespace AND c.kind || '/' || c.name = t.step
UNION ALL
SELECT c.cluster, c.audit_id, c.ts, -1, 'Namespace/' || c.namespace, c.user_agent, n.metadata::VARCHAR
FROM chains AS c JOIN namespaces AS n ON n.cluster = c.cluster AND n.name = c.namespace
WHERE c.namespace <> ''
ORDER BY ALL
