-- one row per kind of missing or doubtful evidence and its subject: (cluster, kind, detail)
-- kind: see queries/ledger.py, which gives each kind's meaning for verdicts and the remedy
-- count: requests; stretches of time for silence, burst, late and lost_batch; records for quarantined
-- first_ts: earliest of them
-- last_ts: latest of them
-- detail: the subject, mostly the resource
--
-- An audit log does not show which API server wrote an event, which events a full buffer dropped, or requests at level None. This
-- view finds only traces of these: silences, bursts, and versions of objects without a recorded write. Its parts are macros:
-- one of them alone is planned in a fraction of the time, and needs the memory of that part only.
FROM (
    FROM losses_of_bodies()
    UNION ALL
    FROM losses_of_fields()
    UNION ALL
    FROM losses_of_sources()
    UNION ALL
    FROM losses_of_versions()
    UNION ALL
    FROM losses_of_answers()
    UNION ALL
    FROM losses_of_clocks()
    UNION ALL
    FROM losses_of_silences()
    UNION ALL
    FROM losses_of_deliveries()
    UNION ALL
    FROM losses_of_batches()
    UNION ALL
    FROM losses_of_quarantine()
)
ORDER BY cluster, kind, count DESC, detail
