-- warn: writes that policies saw, recorded without bodies; a replay can only say unknown of them
SELECT cluster, api_group, resource, subresource, verb, level, count(*) AS requests
FROM admission_writes
WHERE ran <> 'no' AND operation IN ('CREATE', 'UPDATE') AND request_object IS NULL AND response_object IS NULL
GROUP BY ALL
