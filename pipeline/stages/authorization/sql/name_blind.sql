-- whether a row of `asked` is for a resource, and of a user, whose permissions no rule of the time gives by name: see RecordedRbac.named
-- A Node's permissions depend on the names of the objects that its Pods use.
NOT starts_with(user_name, 'system:node:') AND NOT EXISTS (
    FROM rbac_named
    WHERE rbac_named.cluster = sorted.cluster AND rbac_named.api_group IN ('*', sorted.api_group)
        AND split_part(rbac_named.resource, '/', 1) IN ('*', sorted.resource)
)
