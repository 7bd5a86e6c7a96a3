-- one row: the first and the last request of a cluster in `conditions_asked`
SELECT min(ts), max(ts) FROM conditions_asked WHERE cluster = $cluster
