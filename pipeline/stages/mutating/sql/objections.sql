-- one row per (policy, binding, flag): the requests with a flag but for dry runs, and the latest of them
-- changed: requests that the policy changes; path, before and after: a change of the latest request, as JSON values
-- others: the policies on whose order the result of these requests depends
WITH flagged AS (
    SELECT
        policy, binding, cluster, audit_id, ts, coalesce(json_extract(detail, '$.difference[0]'), '{}'::JSON) AS change,
        unnest(from_json(detail, '{"flags": ["VARCHAR"]}').flags) AS flag
    FROM read_parquet($verdicts) ANTI JOIN dry_runs USING (cluster, audit_id, ts)
    WHERE policy <> 'mutating' AND detail IS NOT NULL
),
disputed AS (
    SELECT cluster, audit_id, ts, 'order-dependent' AS flag, list(DISTINCT policy) AS policies
    FROM flagged
    WHERE flag = 'order-dependent'
    GROUP BY ALL
)
SELECT
    policy, binding, flag, count(DISTINCT (cluster, audit_id, ts)) AS requests,
    arg_max(audit_id, (ts, audit_id)) AS example,
    arg_max(change ->> '$.path', (ts, audit_id)) AS path,
    arg_max(change -> '$.before', (ts, audit_id))::VARCHAR AS before,
    arg_max(change -> '$.after', (ts, audit_id))::VARCHAR AS after,
    list_sort(list_distinct(flatten(list(policies)))) AS others
FROM flagged LEFT JOIN disputed USING (cluster, audit_id, ts, flag)
GROUP BY policy, binding, flag
UNION ALL
-- the requests that a later step newly refuses because of what the policy changes
SELECT
    own.policy, own.binding, 'refused:' || (whole.detail ->> '$.refused_by'), count(DISTINCT (own.cluster, own.audit_id, own.ts)),
    arg_max(own.audit_id, (own.ts, own.audit_id)), arg_max(own.detail ->> '$.difference[0].path', (own.ts, own.audit_id)),
    arg_max(own.detail -> '$.difference[0].before', (own.ts, own.audit_id))::VARCHAR,
    arg_max(own.detail -> '$.difference[0].after', (own.ts, own.audit_id))::VARCHAR, []
FROM read_parquet($verdicts) AS own JOIN read_parquet($verdicts) AS whole USING (cluster, audit_id, ts, pass)
ANTI JOIN dry_runs USING (cluster, audit_id, ts)
WHERE own.policy <> 'mutating' AND own.decision = 'changed' AND whole.policy = 'mutating'
    AND whole.detail ->> '$.refused_by' IS NOT NULL AND whole.flip = 'newly-denied'
GROUP BY ALL
UNION ALL
-- the places that one user of the cluster itself writes back on one object at least twice, and that the policy changes each time
SELECT
    policy, binding, 'fight:' || user_name, sum(requests)::BIGINT, arg_max(example, last), arg_max(path, last),
    arg_max(before, last), arg_max(after, last), []
FROM (
    SELECT
        policy, binding, user_name, change ->> '$.path' AS path, count(DISTINCT (cluster, audit_id, ts)) AS requests, max(ts) AS last,
        arg_max(audit_id, (ts, audit_id)) AS example, arg_max(change -> '$.before', (ts, audit_id))::VARCHAR AS before,
        arg_max(change -> '$.after', (ts, audit_id))::VARCHAR AS after
    FROM (
        SELECT policy, binding, cluster, audit_id, ts, unnest(json_extract(detail, '$.difference[*]')) AS change
        FROM read_parquet($verdicts) ANTI JOIN dry_runs USING (cluster, audit_id, ts)
        WHERE policy <> 'mutating' AND detail IS NOT NULL
    ) JOIN requests USING (cluster, audit_id, ts)
    WHERE user_name LIKE 'system:%' AND verb IN ('update', 'patch') AND code < 300 AND change ->> '$.op' <> 'add'
    GROUP BY policy, binding, user_name, path, cluster, api_group, resource, namespace, name
    HAVING requests >= 2
)
GROUP BY policy, binding, user_name
ORDER BY policy, binding NULLS FIRST, flag
