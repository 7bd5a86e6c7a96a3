-- one row per request in `asked`, whose class needs no record of its own, with its question
-- question: everything that the decision depends on; epoch: the state of namespaces and definitions
SELECT
    cluster, audit_id, ts, stage_ts,
    {
        cluster: cluster, verb: verb, operation: operation, api_group: api_group, api_version: api_version, resource: resource,
        subresource: subresource, namespace: namespace, code: code, reason: reason, message: message, marks: marks, noted: noted,
        dry_run: dry_run, epoch: epoch
    } AS question
FROM asked JOIN webhooks_epochs USING (cluster, audit_id, ts)
