-- whether a row of `asked` is for a resource whose permissions no rule of any recorded time gives by name: see RecordedRbac.named
redacted = '' AND NOT EXISTS (
    FROM rbac_named
    WHERE rbac_named.cluster = sorted.cluster AND rbac_named.api_group IN ('*', sorted.api_group)
        AND split_part(rbac_named.resource, '/', 1) IN ('*', sorted.resource)
)
