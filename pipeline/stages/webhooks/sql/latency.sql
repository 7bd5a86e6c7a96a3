-- one row per (annotation, value) of the latencies that the server noted for a phase of webhooks
SELECT regexp_extract(note.key, '^apiserver\.latency\.k8s\.io/(mutating|validating)-webhook$', 1) AS phase, note.value, count(*)
FROM (
    SELECT unnest(map_entries(annotations)) AS note FROM requests
    WHERE ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
)
WHERE phase <> ''
GROUP BY ALL
ORDER BY ALL
