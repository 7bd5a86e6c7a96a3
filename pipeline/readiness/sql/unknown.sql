-- one row per (policy, binding, missing evidence) with the requests that it left unjudged
-- why: the reason without the names and times of the single request, so that equal gaps are counted together
WITH reasons AS (
    SELECT
        policy,
        binding,
        regexp_replace(
            regexp_replace(coalesce(why, ''), 'by \S+ [0-9a-f-]{36} of [0-9T:.-]+Z', 'by an earlier request', 'g'),
            '(version of \S+) \S+ in the log', '\1 in the log', 'g'
        ) AS why
    FROM outcomes
    WHERE outcome = 'unknown'
)
SELECT policy, binding, why, count(*) AS requests
FROM reasons
GROUP BY ALL
ORDER BY policy, binding, requests DESC, why
