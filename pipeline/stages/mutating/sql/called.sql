-- one row per request with an attempt to call a mutating webhook in the first round: (audit_id, verb, resource)
SELECT DISTINCT
    audit_id, verb,
    resource || CASE WHEN api_group <> '' THEN '.' || api_group ELSE '' END
        || CASE WHEN subresource <> '' THEN '/' || subresource ELSE '' END AS resource
FROM requests, unnest(map_entries(annotations)) AS entries(entry)
WHERE entry.key LIKE 'mutation.webhook.admission.k8s.io/round\_0\_%' ESCAPE '\'
    AND json_valid(entry.value)
    AND entry.value ->> '$.webhook' = $webhook
    AND ($configuration IS NULL OR entry.value ->> '$.configuration' = $configuration)
    AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
ORDER BY ALL
