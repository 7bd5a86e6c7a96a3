-- one row per request of a window that admission is for: (cluster, audit_id, ts), with what the calls of webhooks depend on
-- operation: a refused update or patch counts as UPDATE, though the object may not have existed
-- marks: JSON of the annotations that show calls of webhooks, without those of authorizers, plugins and latencies
-- noted: JSON of the notes that say how far the request came
-- message: of refusals only
CREATE OR REPLACE TEMP TABLE webhooks_asked AS
SELECT
    cluster, audit_id, ts, stage_ts, verb, operation, way,
    coalesce(api_group, '') AS api_group, coalesce(api_version, '') AS api_version,
    resource, coalesce(subresource, '') AS subresource, coalesce(namespace, '') AS namespace,
    coalesce(code, 0) AS code,
    CASE WHEN code >= 400 THEN coalesce(status_reason, '') ELSE '' END AS reason,
    CASE WHEN code >= 400 OR status_message LIKE 'Connection closed%' THEN coalesce(status_message, '') ELSE '' END AS message,
    to_json(map_from_entries(list_sort(list_filter(
        map_entries(annotations),
        lambda entry: entry.key = 'authorization.k8s.io/decision'
            OR entry.key = 'validation.policy.admission.k8s.io/validation_failure'
            OR NOT (
                starts_with(entry.key, 'authorization.k8s.io/') OR starts_with(entry.key, 'apiserver.latency.k8s.io/')
                OR starts_with(entry.key, 'pod-security.kubernetes.io/') OR starts_with(entry.key, 'authentication.')
                OR starts_with(entry.key, 'patch.webhook.') OR starts_with(entry.key, 'k8s.io/')
                OR starts_with(entry.key, 'audit.k8s.io/')
            )
    ))))::VARCHAR AS marks,
    to_json(map_from_entries(list_sort(list_filter(map_entries(notes), lambda entry: entry.key IN ('wording', 'review')))))::VARCHAR AS noted,
    dry_run
FROM reach
WHERE operation IS NOT NULL AND way <> 'empty' AND stage = 'ResponseComplete'
    AND ts IS NOT NULL AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
