-- one row per (policy, why) that Hindcast failed to judge, with the admission passes that this leaves unknown
SELECT policy, why, sum(passes)::BIGINT AS requests
FROM (SELECT DISTINCT policy, why, set FROM members JOIN distinct_verdicts USING (verdict)
    WHERE decision = 'unknown' AND contains(why, $defect))
JOIN passes USING (set)
GROUP BY policy, why
ORDER BY policy, why
