-- rows of `losses`: writes that were recorded without the bodies that policies read
CREATE MACRO losses_of_bodies() AS TABLE
WITH writes AS (
    SELECT
        *,
        CASE
            WHEN request_object IS NULL AND list_contains(flags, 'redacted') THEN 'redacted'
            WHEN request_object IS NULL AND list_contains(flags, 'truncated') THEN 'truncated'
            -- The note is `requestObject=WHY,responseObject=WHY`, in the words of ingest/altered.py.
            WHEN list_contains(flags, 'altered') THEN CASE regexp_extract(notes['altered'], 'Object=([a-z]+)', 1)
                WHEN 'empty' THEN 'altered_empty' WHEN 'kind' THEN 'altered_kind' WHEN 'metadata' THEN 'altered_metadata'
                ELSE 'altered_keys'
            END
            -- An API server writes three levels. Without one of them, a body that is missing was perhaps never sent.
            WHEN level NOT IN ('Metadata', 'Request', 'RequestResponse') THEN 'level_unknown'
            WHEN request_object IS NULL AND level = 'Metadata' THEN 'level_metadata'
            WHEN level = 'Request' AND NOT list_contains(flags, 'redacted') AND NOT list_contains(flags, 'truncated')
                THEN 'level_request'
        END AS withheld_by
    FROM admission_writes
    WHERE ran <> 'no' AND operation IN ('CREATE', 'UPDATE') AND response_object IS NULL
),
found AS (
    SELECT cluster, withheld_by AS kind, ts, resource_label(api_group, resource, subresource) AS detail
    FROM writes
    WHERE withheld_by IS NOT NULL
)
SELECT cluster, kind, count(*) AS count, min(ts) AS first_ts, max(ts) AS last_ts, detail
FROM found
GROUP BY cluster, kind, detail
