-- `exposed`: one row per kind of request in `judged`: the requests that no exemption can tell apart
-- outcome: as in `outcomes`: deny, unknown or admit
-- namespace: as admission sees it: a request for a Namespace carries its own name
-- name: null where the request has none (deletecollection), or it was not recorded
-- chain: the object and its controllers up to the root owner, as in `roots`; the last of them is the unit that rates are computed on
-- labels, generate_name: as in `subjects`
-- is_configuration: denied by an error of the configuration, before match conditions are evaluated
-- is_behind: see exposed_behind; always true in a plain run
-- is_later: the request lies in the later half of the time that the policy's requests span
CREATE OR REPLACE TEMP TABLE exposed AS
WITH described AS (
    SELECT
        s.cluster, s.audit_id, s.ts, s.user_name, s.user_groups, s.api_group,
        s.plain_resource AS resource,
        s.subresource,
        -- A Namespace whose name the server still has to generate has no namespace yet.
        CASE WHEN s.kind = 'Namespace' AND coalesce(s.api_group, '') = '' AND r.name IS NULL THEN '' ELSE s.namespace END AS namespace,
        -- A generated name stands in the response, or in the words of the refusal.
        CASE
            WHEN r.code >= 400 THEN coalesce(r.name, nullif(regexp_extract(r.status_message, '^\S+ "([^"]+)" is forbidden:', 1), ''))
            WHEN r.name IS NOT NULL OR (r.verb = 'create' AND NOT ends_with(s.name, '*')) THEN s.name
        END AS name,
        s.labels, s.generate_name,
        roots.chain
    FROM subjects AS s
    JOIN folded_requests AS r ON r.cluster = s.cluster AND r.audit_id = s.audit_id AND r.ts = s.ts
    LEFT JOIN roots ON roots.cluster = s.cluster AND roots.namespace = s.namespace AND roots.kind = s.kind AND roots.name = s.name
    QUALIFY row_number() OVER (PARTITION BY s.cluster, s.audit_id, s.ts ORDER BY r.stage_ts) = 1
)
SELECT
    policy, binding, outcome, is_configuration, is_behind, cluster,
    judged.ts > middle AS is_later,
    coalesce(user_name, '') AS user_name,
    coalesce(user_groups, []) AS user_groups,
    coalesce(api_group, '') AS api_group,
    coalesce(resource, '') AS resource,
    coalesce(subresource, '') AS subresource,
    coalesce(namespace, '') AS namespace,
    name, labels,
    coalesce(generate_name, '') AS generate_name,
    coalesce(chain, ['']) AS chain,
    count(*) AS requests
FROM judged
JOIN (SELECT policy, min(ts) + (max(ts) - min(ts)) / 2 AS middle FROM judged GROUP BY policy) AS spans USING (policy)
LEFT JOIN described USING (cluster, audit_id, ts)
WHERE $names::VARCHAR[] IS NULL OR list_contains($names::VARCHAR[], policy)
GROUP BY ALL
