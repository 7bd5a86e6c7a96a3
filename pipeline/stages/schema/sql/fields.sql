-- one row per (definition, field, error) of newly refused requests, the most frequent first
-- field: with [] for the items of lists; error: without the value and the name of the object
-- A request with several errors counts in each row; that rules were not checked is a row of no request.
WITH errors AS (
    SELECT policy, cluster, audit_id, ts, code, message,
        unnest(coalesce(from_json(detail -> '$.errors', '[{"field": "VARCHAR", "reason": "VARCHAR", "message": "VARCHAR"}]'), [])) AS error
    FROM read_parquet($verdicts)
    WHERE flip = 'newly-denied'
),
plain AS (
    SELECT policy, cluster, audit_id, ts, regexp_replace(error.field, '\[\d+\]', '[]', 'g') AS field, error.message AS text
    FROM errors
    WHERE NOT contains(error.message, 'some validation rules were not checked')
    UNION ALL
    SELECT policy, cluster, audit_id, ts, '', message
    FROM read_parquet($verdicts)
    WHERE flip = 'newly-denied' AND coalesce(json_array_length(detail, '$.errors'), 0) = 0
)
SELECT
    policy AS definition, field,
    regexp_replace(
        regexp_replace(
            regexp_replace(text, '^((?:Invalid|Unsupported|Duplicate) value): (?:"(?:[^"\\]|\\.)*"|\{.*\}|[^":]+)(: |$)', '\1: ...\2'),
            ' \([^;()]*; [^()]*\)', ''
        ),
        '\[\d+\]', '[]', 'g'
    ) AS error,
    count(DISTINCT (cluster, audit_id, ts)) AS requests,
    count(DISTINCT user_name) AS users,
    count(DISTINCT (namespace, requests.name)) AS objects,
    arg_max(audit_id, (ts, audit_id)) AS example
FROM plain JOIN requests USING (cluster, audit_id, ts)
GROUP BY ALL
ORDER BY requests DESC, definition, field, error
