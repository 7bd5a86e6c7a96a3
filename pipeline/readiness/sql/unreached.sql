-- one row per policy with would-be denials that no usable candidate takes out: their number
SELECT policy, sum(requests)::BIGINT AS requests
FROM exposed_groups AS g
ANTI JOIN (SELECT id FROM taken SEMI JOIN usable USING (candidate)) AS reached USING (id)
WHERE outcome = 'deny' AND NOT ($earlier AND is_later) AND list_contains($names, policy)
GROUP BY ALL
