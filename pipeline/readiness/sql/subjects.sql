-- one row per request that some policy matched: (cluster, audit_id, ts), with what it is about and who sent it
-- kind, name: of the object that the request names, whatever its subresource
-- owner_kind, owner_name: of the object's controller, where the recorded body is the object and has one
-- is_whole: whether the recorded body is the object, so that it shows the controller if there is one
-- release: what makes two releases of a unit differ: the container images, or else the content other than metadata and status; null for
--   requests that do not show the object
-- labels: JSON of the object's labels; null where this request does not hold the object
-- generate_name: what the server made the name of the object from; empty where a client named it, or where it is not recorded
-- marks: JSON of the parts of the metadata that name teams and tools
-- is_finalizing: a write to an object that is being deleted
--
-- An auditID may be repeated, and the kind of a custom resource is null until `subjects_repeated` and `subjects_custom` ran: here no
-- window and no second look holds all rows at a time.
CREATE OR REPLACE TEMP TABLE subjects AS
WITH described AS (
    SELECT
        r.cluster, r.audit_id, r.ts, r.stage_ts, r.verb, r.api_group, r.resource, r.subresource,
        coalesce(r.user_name, '') AS user_name,
        r.user_groups,
        coalesce(r.user_agent, '') AS user_agent,
        coalesce(r.namespace, '') AS namespace,
        coalesce(t.name, nullif(r.name, ''), '*') AS name,
        t.body_kind, t.owner_kind, t.owner_name, t.template_hash, t.release_of_object, t.labels, t.marks,
        coalesce(t.has_metadata, false) AS has_metadata,
        coalesce(t.is_being_deleted, false) AS is_being_deleted,
        coalesce(t.generate_name, '') AS generate_name
    FROM folded_requests AS r
    SEMI JOIN judged AS j ON r.cluster = j.cluster AND r.audit_id = j.audit_id AND r.ts = j.ts
    LEFT JOIN told AS t
        ON t.cluster = r.cluster AND t.audit_id = r.audit_id AND t.ts = r.ts AND t.stage = r.stage AND t.stage_ts = r.stage_ts
)
SELECT
    cluster, audit_id, ts, stage_ts, verb,
    user_name, user_groups, user_agent,
    -- A create of a Namespace names none, its other requests name itself; admission sees the latter in all of them.
    CASE WHEN kinds.kind = 'Namespace' AND coalesce(api_group, '') = '' THEN name ELSE namespace END AS namespace,
    api_group,
    coalesce(resource, '') AS plain_resource,
    coalesce(subresource, '') AS subresource,
    resource_label(nullif(api_group, ''), resource, subresource) AS resource,
    kinds.kind, name, owner_kind, owner_name, template_hash,
    body_kind, has_metadata,
    coalesce(body_kind = kinds.kind, false) AND has_metadata AS is_whole,
    subresource IS NOT DISTINCT FROM 'finalize' OR (verb IN ('update', 'patch') AND is_being_deleted) AS is_finalizing,
    CASE WHEN kinds.kind IS NULL OR is_whole THEN release_of_object END AS release,
    labels, generate_name, marks
FROM described LEFT JOIN kinds USING (api_group, resource)
