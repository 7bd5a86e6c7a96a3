-- one row per object that a matched request names: (cluster, namespace, kind, name), with the chain of controllers up to its root
-- unit: the root as `Kind/name`; a chain is followed for eight steps
-- chain: the object itself first
CREATE OR REPLACE TEMP TABLE roots AS
WITH RECURSIVE walked(cluster, namespace, kind, name, at_kind, at_name, chain) AS (
    SELECT DISTINCT cluster, namespace, kind, name, kind, name, [kind || '/' || name]
    FROM subjects
    UNION ALL
    SELECT w.cluster, w.namespace, w.kind, w.name, o.owner_kind, o.owner_name, list_append(w.chain, o.owner_kind || '/' || o.owner_name)
    FROM walked AS w
    JOIN controllers AS o ON o.cluster = w.cluster AND o.namespace = w.namespace AND o.kind = w.at_kind AND o.name = w.at_name
    WHERE o.owner_kind IS NOT NULL AND len(w.chain) < 8
        AND NOT list_contains(w.chain, o.owner_kind || '/' || o.owner_name)
)
SELECT cluster, namespace, kind, name, arg_max(chain, len(chain)) AS chain, arg_max(chain, len(chain))[-1] AS unit
FROM walked
GROUP BY ALL
