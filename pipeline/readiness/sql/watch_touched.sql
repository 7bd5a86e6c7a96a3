-- one row per stretch of time in which the events of some files were received: what may have to be replayed again
SELECT DISTINCT time_bucket(to_microseconds($stretch_us), ts) AS stretch
FROM read_parquet($files)
WHERE stage = 'ResponseComplete'
ORDER BY stretch
