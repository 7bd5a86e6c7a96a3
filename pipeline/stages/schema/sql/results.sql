-- one row per definition of a run: its requests by what becomes of them
-- newly_refused: of the refused ones those that the record admits; newly_admitted: admitted ones that the record refuses
-- still_refused: those that the record refuses, by whatever stage, and that the definition does not help
-- A request is newly refused, still refused, changed, ratcheted, admitted or unknown. One that is ratcheted may be changed as well.
-- warned: of the ratcheted ones those with a warning
-- follow: refused requests on objects whose creation is refused, or would have left another object
SELECT
    policy AS definition,
    count(*) AS requests,
    count(*) FILTER (detail ->> '$.result' = 'admitted') AS admitted,
    count(*) FILTER (decision = 'change') AS changed,
    count(*) FILTER (starts_with(detail ->> '$.result', 'ratcheted')) AS ratcheted,
    count(*) FILTER (detail ->> '$.result' = 'ratcheted with a warning') AS warned,
    count(*) FILTER (decision = 'deny') AS refused,
    count(*) FILTER (flip = 'newly-denied') AS newly_refused,
    count(*) FILTER (flip = 'still-denied' OR decision = 'unreached') AS still_refused,
    count(*) FILTER (flip = 'newly-allowed') AS newly_admitted,
    count(*) FILTER (decision = 'unknown') AS unknown,
    count(*) FILTER (decision = 'unreached') AS unreached,
    count(*) FILTER (flip = 'newly-denied' AND detail ->> '$.cascade_of' IS NOT NULL) AS follow
FROM read_parquet($verdicts)
GROUP BY policy
ORDER BY newly_refused DESC, unknown DESC, definition
