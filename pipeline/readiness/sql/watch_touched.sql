-- one row per stretch of time in which the events of some files were received: what may have to be replayed again
SELECT DISTINCT time_bucket(to_microseconds($stretch_us), ts) AS stretch
FROM read_parquet($files)
WHERE stage = 'ResponseComplete' AND ts IS NOT NULL -- a window holds none without it
ORDER BY stretch
