-- one row per pass of a request with a call of a webhook in a run: (configuration, webhook, cluster, audit_id, ts, pass)
-- calls: 2 with the second round, and 2 for a delete that the store asks about twice
-- object_bytes: JSON of object and oldObject, as far as recorded; an old object counts as large as the new one
CREATE OR REPLACE TEMP TABLE webhooks_calls AS
SELECT
    policy AS configuration, binding AS webhook, detail ->> '$.phase' AS phase, verdicts.cluster, verdicts.audit_id, verdicts.ts,
    verdicts.pass, (detail ->> '$.calls')::INTEGER AS calls, coalesce(requests.code, 0) AS code,
    requests.resource || CASE WHEN coalesce(requests.api_group, '') <> '' THEN '.' || requests.api_group ELSE '' END
        || CASE WHEN coalesce(requests.subresource, '') <> '' THEN '/' || requests.subresource ELSE '' END AS resource,
    coalesce(requests.user_name, '') AS user_name, coalesce(requests.namespace, '') AS namespace,
    CASE
        WHEN NOT $with_bytes OR requests.verb = 'deletecollection' THEN NULL
        WHEN requests.code >= 400 OR requests.subresource IN ('binding', 'eviction', 'token') THEN strlen(requests.request_object)
        ELSE coalesce(strlen(requests.response_object), strlen(requests.request_object))
    END * CASE WHEN requests.verb IN ('update', 'patch') AND requests.code <> 201 THEN 2 ELSE 1 END AS object_bytes
FROM read_parquet($verdicts) AS verdicts JOIN requests USING (cluster, audit_id, ts)
WHERE decision = 'called'
