-- one row per request that validating admission saw, or would have seen: (cluster, audit_id, ts)
-- operation: CREATE, UPDATE, DELETE or CONNECT; a refused update or patch reads UPDATE, though the object may not have existed
-- ran: whether policies were evaluated: `yes`, `no`, or `unknown` where the answer alone cannot tell
-- ran_reason: why
-- dry_run: whether the request asked for no effect
-- outcome: what became of the request: see `requests`
-- user_name: effective user: the impersonated one where the request impersonated
--
-- Policies run after authorization, decoding, mutation and the object's own validation, and before validating webhooks, quota and
-- the write (kubernetes/kubernetes pkg/kubeapiserver/options/plugins.go). Requests that another API server served on behalf of this
-- one are given to that server's admission, and nothing in the log tells them apart.
--
-- What only a body tells is asked of deletes alone, in branches of their own: whoever does not ask for bodies then reads few of them.
WITH writes AS (
    SELECT *, NULL AS swept, false AS dry_delete FROM requests WHERE verb NOT IN ('delete', 'deletecollection')
    UNION ALL
    SELECT *, NULL, coalesce(json_array_length(request_object, '$.dryRun'), 0) > 0 FROM requests WHERE verb = 'delete'
    UNION ALL
    SELECT
        *,
        CASE WHEN response_object IS NULL THEN 'unrecorded' WHEN json_array_length(response_object, '$.items') = 0 THEN 'nothing' END,
        coalesce(json_array_length(request_object, '$.dryRun'), 0) > 0
    FROM requests
    WHERE verb = 'deletecollection'
),
operations AS (
    SELECT
        *,
        CASE
            WHEN subresource IN ('attach', 'exec', 'portforward') AND verb IN ('create', 'get') THEN 'CONNECT'
            WHEN subresource = 'proxy' THEN 'CONNECT'
            WHEN verb = 'create' THEN 'CREATE'
            WHEN verb IN ('update', 'patch') AND code = 201 THEN 'CREATE'
            WHEN verb IN ('update', 'patch') THEN 'UPDATE'
            WHEN verb IN ('delete', 'deletecollection') THEN 'DELETE'
        END AS operation
    FROM writes
    WHERE resource IS NOT NULL
),
judged AS (
    SELECT
        *,
        CASE
            WHEN exempt_from_policies(api_group, resource) THEN 'no: policies are never asked about this resource'
            WHEN outcome = 'vap' THEN 'yes: a policy refused it'
            -- The record of a request whose client left before anything was written (apiserver pkg/endpoints/filters/audit.go).
            WHEN outcome = 'allowed' AND operation <> 'CONNECT' AND status_message = 'Connection closed early'
                THEN 'unknown: the handler answered nothing, so that its success was made up'
            WHEN swept = 'unrecorded' AND outcome = 'allowed' THEN 'unknown: the deleted objects were not recorded'
            WHEN swept = 'nothing' AND outcome = 'allowed' THEN 'no: there was nothing to delete'
            WHEN outcome = 'allowed' THEN 'yes: it was admitted'
            WHEN outcome IN ('webhook', 'webhook_failure') THEN webhook_ran(annotations, status_message)
            WHEN outcome = 'quota' THEN 'yes: quota is checked afterwards'
            WHEN outcome = 'exists' AND verb = 'create' THEN 'yes: the write found the object'
            WHEN outcome = 'backend' THEN 'yes: the connection was tried afterwards'
            WHEN outcome = 'conflict' THEN 'unknown: a stale version is found before policies run, a lost race afterwards'
            WHEN outcome = 'not_found' AND operation = 'CREATE' AND subresource IS NULL THEN 'no: the namespace was not there'
            WHEN outcome = 'not_found' THEN 'unknown: the object was not there, or went meanwhile'
            WHEN outcome = 'disruption_budget' THEN 'unknown: the budget is checked around admission'
            WHEN outcome = 'error' AND regexp_matches(status_message, '^failed to create (?:manager|typed patch)')
                THEN 'no: the body could not be applied'
            WHEN outcome IN ('error', 'timeout', 'open', 'not_ready') THEN 'unknown: ' || CASE outcome
                WHEN 'open' THEN 'no answer is recorded'
                WHEN 'timeout' THEN 'it timed out'
                WHEN 'not_ready' THEN 'admission was not ready'
                ELSE 'the server failed'
            END
            ELSE 'no: refused before policies run'
        END AS verdict
    FROM operations
    WHERE operation IS NOT NULL
)
SELECT
    * EXCLUDE (verdict, complete, stages, outcome, operation, swept, dry_delete),
    operation, outcome,
    split_part(verdict, ': ', 1) AS ran,
    substr(verdict, strpos(verdict, ': ') + 2) AS ran_reason,
    regexp_matches(request_uri, '[?&]dryRun=[^&]') OR (operation = 'DELETE' AND dry_delete) AS dry_run
FROM judged
