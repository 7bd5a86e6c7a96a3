-- one row per (policy, distinct set of candidates that take out the same would-be denials); `usable` are the candidates that count
SELECT DISTINCT policy, holders
FROM (
    SELECT policy, id, list_sort(list(candidate)) AS holders
    FROM taken SEMI JOIN usable USING (candidate)
    WHERE outcome = 'deny' AND NOT ($earlier AND is_later)
    GROUP BY policy, id
)
