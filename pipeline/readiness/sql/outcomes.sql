-- one row per (policy, binding, cluster, audit_id, ts) that the policy matched or may have matched, with who and what it was about
-- unit: the root owner of the object as `Kind/name`; with cluster and namespace it is what rates are computed on
-- release: as in `subjects`
-- critical: the first kind of critical subject that fits, see CriticalKind; null for none
-- critical_subject: the namespace where that is what makes it critical, else the user
CREATE OR REPLACE TEMP TABLE outcomes AS
SELECT
    j.*,
    coalesce(s.user_name, '') AS user_name,
    coalesce(s.user_agent, '') AS user_agent,
    coalesce(s.namespace, '') AS namespace,
    coalesce(s.resource, '') AS resource,
    coalesce(s.kind, '') AS kind,
    coalesce(s.name, '') AS name,
    coalesce(r.unit, '') AS unit,
    s.release,
    CASE
        WHEN list_contains($sink_namespaces, s.namespace)
            OR list_contains($sink_namespaces, regexp_extract(s.user_name, '^system:serviceaccount:([^:]+):', 1)) THEN 'our own sink'
        WHEN starts_with(s.user_name, 'system:node:') OR list_contains(s.user_groups, 'system:nodes') THEN 'node'
        WHEN starts_with(s.user_name, 'system:serviceaccount:kube-system:') THEN 'system controller'
        WHEN starts_with(s.user_name, 'system:') AND NOT starts_with(s.user_name, 'system:serviceaccount:')
            AND s.user_name <> 'system:anonymous' THEN 'system controller'
        WHEN list_contains($break_glass_users, s.user_name) OR list_has_any($break_glass_groups, s.user_groups) THEN 'break-glass user'
        WHEN list_contains($system_namespaces, s.namespace) THEN 'system namespace'
        WHEN s.api_group = '' AND s.plain_resource = 'namespaces' THEN 'namespace traffic'
        WHEN s.is_finalizing THEN 'finalizer traffic'
    END AS critical,
    CASE
        WHEN critical = 'system namespace' THEN s.namespace
        WHEN critical = 'namespace traffic' THEN s.name
        WHEN critical IS NOT NULL THEN s.user_name
    END AS critical_subject
FROM judged AS j
LEFT JOIN subjects AS s USING (cluster, audit_id, ts)
LEFT JOIN roots AS r ON r.cluster = s.cluster AND r.namespace = s.namespace AND r.kind = s.kind AND r.name = s.name
