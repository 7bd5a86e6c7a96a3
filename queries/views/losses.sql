-- one row per kind of missing or doubtful evidence and its subject: (cluster, kind, detail)
-- kind: see queries/ledger.py, which gives each kind's meaning for verdicts and the remedy
-- count: requests; stretches of time for silence, burst, late and lost_batch; records for quarantined
-- first_ts: earliest of them
-- last_ts: latest of them
-- detail: the subject, mostly the resource
--
-- An audit log does not show which API server wrote an event, which events a full buffer dropped, or requests at level None. This
-- view finds only traces of these: silences, bursts, and versions of objects without a recorded write.
FROM losses_in(NULL)
ORDER BY cluster, kind, count DESC, detail
