-- warn: requests without a final stage; they are still open, or their last event was lost
SELECT cluster, verb, resource, subresource, count(*) AS requests, min(ts) AS first_ts, max(ts) AS last_ts
FROM requests
WHERE NOT complete AND outcome <> 'authentication'
GROUP BY ALL
