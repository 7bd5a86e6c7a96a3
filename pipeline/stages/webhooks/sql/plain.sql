-- one row per request of a class that needs no record of its own, with the number of its question
-- question: everything that the decision depends on; epoch: the state of namespaces and definitions
CREATE OR REPLACE TEMP TABLE webhooks_plain AS
SELECT
    cluster, audit_id, ts, stage_ts,
    {
        cluster: cluster, verb: verb, operation: operation, api_group: api_group, api_version: api_version, resource: resource,
        subresource: subresource, namespace: namespace, code: code, reason: reason, message: message, marks: marks,
        dry_run: dry_run, epoch: epoch
    } AS question
FROM webhooks_asked JOIN webhooks_epochs USING (cluster, audit_id, ts)
    JOIN webhooks_classes USING (cluster, verb, operation, api_group, api_version, resource, subresource, refused)
WHERE NOT by_record AND webhooks_classes.is_namespaced = (namespace <> '')
