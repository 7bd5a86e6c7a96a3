-- one row: the objects of snapshots that the lake holds, as a digest; what a snapshot lists speaks for the time before it, too
SELECT coalesce(bit_xor(hash(cluster, observed_ts, api_version, kind, namespace, name, object)), 0)::VARCHAR AS objects
FROM lake_objects
WHERE $until IS NULL OR observed_ts < $until
