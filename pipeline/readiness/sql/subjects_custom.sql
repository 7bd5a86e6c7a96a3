-- adds to `subjects` the kinds of custom resources, and what follows from them
-- Any body of a custom resource shows its kind. The built-in kinds are in a table.
WITH custom AS (
    SELECT api_group, plain_resource, max(body_kind) AS kind
    FROM subjects
    WHERE kind IS NULL AND subresource IN ('', 'status') AND verb IN ('create', 'update', 'patch')
        AND body_kind NOT IN ('Status', 'Table', 'PartialObjectMetadata', 'DeleteOptions')
    GROUP BY ALL
),
found AS (
    SELECT
        s.rowid AS place, coalesce(custom.kind, s.plain_resource) AS kind,
        coalesce(s.body_kind = coalesce(custom.kind, s.plain_resource), false) AND s.has_metadata AS is_whole
    FROM subjects AS s LEFT JOIN custom USING (api_group, plain_resource)
    WHERE s.kind IS NULL
)
UPDATE subjects
SET
    kind = found.kind,
    is_whole = found.is_whole,
    namespace = CASE WHEN found.kind = 'Namespace' AND coalesce(api_group, '') = '' THEN name ELSE namespace END,
    release = CASE WHEN found.is_whole THEN release END
FROM found
WHERE subjects.rowid = found.place
