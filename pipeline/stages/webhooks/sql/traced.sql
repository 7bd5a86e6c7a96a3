-- one row: the requests that validating webhooks may have been called for, and those of them with a trace of any webhook
SELECT
    count(*) AS reached,
    count(*) FILTER (
        len(list_filter(map_keys(annotations), lambda key: contains(split_part(key, '/', 1), 'webhook.admission.k8s.io'))) > 0
        OR outcome IN ('webhook', 'webhook_failure')
    ) AS traced
FROM reach
WHERE stage_answer(way, passed_number, stopped_number, 'webhooks') IN ('admitted', 'denied', 'asked')
    AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
