-- one row per stretch of time with finished requests: how many, and a digest of their keys that does not depend on files
SELECT
    time_bucket(to_microseconds($stretch_us), ts) AS stretch,
    count(*) || '-' || bit_xor(hash(cluster, audit_id, stage, stage_ts)) AS digest
FROM events
WHERE stage = 'ResponseComplete' AND ts >= $since AND ts < $until
GROUP BY stretch
ORDER BY stretch
