-- one row per kind of evidence that is missing or doubtful, and what it concerns: (cluster, kind, detail)
-- kind: see queries/ledger.py, which says of each what it means for verdicts and what to do
-- count: requests; for silence, burst, late and lost_batch stretches of time, for quarantined records
-- first_ts: earliest of them
-- last_ts: latest of them
-- detail: mostly the resource
--
-- What an audit log cannot tell: which API server wrote an event, what a full buffer dropped, and requests to which the audit policy
-- gives level None. Of these only traces are found here: silences, bursts, and versions of objects that nothing recorded made.
FROM losses_in(NULL)
ORDER BY cluster, kind, count DESC, detail
