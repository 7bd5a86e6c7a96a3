-- one row per object of which a controller, or its absence, is known: (cluster, namespace, kind, name)
-- source: where that was read
-- metadata: of the object's last version; null where that is a request's own, which has it
CREATE OR REPLACE TEMP TABLE controllers AS
SELECT
    cluster, namespace, kind, name,
    arg_max(owner_kind, (ts, audit_id)) AS owner_kind,
    arg_max(owner_name, (ts, audit_id)) AS owner_name,
    'ownerReferences' AS source,
    NULL::JSON AS metadata
FROM subjects
WHERE is_whole OR owner_kind IS NOT NULL
GROUP BY ALL
