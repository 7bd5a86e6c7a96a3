-- one row per file of events, over events that `split_events` shows: what the file holds, as in `FileFacts`
-- content: as in the digest of a lake (pipeline/runs/sql/digest.sql), so that it adds up to it; retention takes bodies out of events
--   and flags them
-- definitions: the same digest of the requests for CustomResourceDefinitions and bindings of mutating policies alone
WITH split AS (
    SELECT *, split_part(cluster, '/', 1)::INTEGER AS file, cluster[strpos(cluster, '/') + 1:] AS its_cluster FROM events
)
SELECT
    file,
    count(*) AS events,
    coalesce(bit_xor(hash(its_cluster, audit_id, stage, stage_ts, code, flags)), 0) AS content,
    coalesce(bit_xor(hash(its_cluster, audit_id, stage, stage_ts, code, flags)) FILTER (resource IN ('customresourcedefinitions', 'mutatingadmissionpolicybindings')), 0)
        AS definitions,
    count(*) FILTER (stage NOT IN ('ResponseComplete', 'Panic')) AS unfinished
FROM split
GROUP BY file
