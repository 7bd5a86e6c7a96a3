-- one row per group of equal creations that a webhook allowed once and denied once: it is no function of the request
-- Equal are user, groups, place, name, sent object and the patches of mutating webhooks.
SELECT
    resource, namespace, name, user_name, arg_min(audit_id, (ts, audit_id)) FILTER (webhook_says = 'allow') AS allowed,
    arg_min(audit_id, (ts, audit_id)) FILTER (webhook_says = 'deny') AS denied, count(*) AS requests
FROM (
    SELECT
        found.*, requests.request_object, list_sort(requests.user_groups) AS groups,
        list_sort(list_filter(map_entries(annotations), lambda entry: starts_with(entry.key, 'patch.webhook.'))) AS patches
    FROM webhooks_migration AS found JOIN requests USING (cluster, audit_id, ts)
    WHERE webhook_says IN ('allow', 'deny') AND found.verb = 'create' AND requests.request_object IS NOT NULL AND found.name <> ''
)
GROUP BY cluster, resource, namespace, name, user_name, groups, request_object, patches
HAVING count(DISTINCT webhook_says) > 1
ORDER BY requests DESC, resource, namespace, name, user_name, allowed
