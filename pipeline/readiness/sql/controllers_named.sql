-- one row per object whose controller is in a request: (cluster, namespace, kind, name); of several controllers the last one
-- source: where that was read
-- metadata: of the object's last version; null here, because the requests have it
CREATE OR REPLACE TEMP TABLE controllers AS
SELECT
    cluster, namespace, kind, name,
    arg_max(owner_kind, (ts, audit_id)) AS owner_kind,
    arg_max(owner_name, (ts, audit_id)) AS owner_name,
    'ownerReferences' AS source,
    NULL::JSON AS metadata
FROM subjects
WHERE owner_kind IS NOT NULL
GROUP BY ALL
