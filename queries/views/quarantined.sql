-- one row per record that could not be taken as an event: (source, cluster, received_ts, reason)
-- source: `webhook`, `sink`, `spool` or `file:NAME`
-- cluster: null where unknown
-- received_ts: null where unknown
-- reason: the reason, with the place if known
--
-- The records themselves are in the lake's folder quarantine/, byte for byte.
SELECT * FROM lake_quarantine
