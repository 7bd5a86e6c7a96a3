-- one row: when the latest list of a snapshot was taken; null without any
SELECT max(observed_ts) AS taken
FROM lake_objects
