-- one row per request that admission is for, with the columns of `reach` and the number 0
SELECT *, 0 AS number
FROM reach
WHERE operation IS NOT NULL AND way <> 'empty' AND stage = 'ResponseComplete' AND ts IS NOT NULL
    AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
