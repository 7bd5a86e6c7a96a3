-- one row per record that could not be taken as an event: (source, cluster, received_ts, reason)
-- source: `webhook`, `sink`, `spool` or `file:NAME`
-- cluster: null where none was known
-- received_ts: null where it was not known
-- reason: why, with the place where there is one
--
-- The records themselves are in the lake's folder quarantine/, byte for byte.
SELECT * FROM lake_quarantine
