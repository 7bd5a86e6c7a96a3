-- one row per policy with would-be denials in the table `verdicts`: the indices of the expressions that denied
SELECT policy, list(DISTINCT expression_index ORDER BY expression_index) AS expressions
FROM verdicts
WHERE effect = 'deny' AND expression_index IS NOT NULL
GROUP BY ALL
ORDER BY ALL
