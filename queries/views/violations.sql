-- one row per policy failure that a cluster recorded of a request: (cluster, audit_id, ts, position in the annotation)
-- policy: spec.policyName of the binding
-- binding: name of the binding
-- message: as in the answer to a client
-- expression_index: index in spec.validations; also 0 for a compile, match condition or budget error
-- actions: validationActions of the binding; Audit is always among them
-- enforced: whether the binding would deny such a request
-- admitted: whether the request still went through; null while no answer is recorded
-- user_name: effective user: the impersonated one where the request impersonated
-- workload: `Kind/name` of the controlling owner where a recorded body names one, else of the object; reads bodies, so it is slow
--
-- Up to Kubernetes 1.36 the server records only the FIRST failure of a request, and in no reproducible order. A missing row does
-- not mean that a policy passed. Bindings without the action Audit, and configuration errors, leave no row at all. A long-running
-- request carries its annotations in two stages. Only the rows of a ResponseStarted stage whose request has no final stage yet are
-- added to those of the final stages. They are looked for among the events of their times; a bound on `ts` reaches both sides of
-- that join.
WITH started AS NOT MATERIALIZED (
    SELECT * FROM events WHERE stage = 'ResponseStarted' AND len(vap_failures) > 0
),
open_requests AS NOT MATERIALIZED (
    SELECT cluster, audit_id, ts
    FROM events JOIN (SELECT DISTINCT ts FROM started) USING (ts)
    GROUP BY ALL
    HAVING count(*) FILTER (stage IN ('ResponseComplete', 'Panic')) = 0
),
failures AS (
    SELECT * EXCLUDE (vap_failures), unnest(vap_failures) AS failure
    FROM events
    WHERE stage <> 'ResponseStarted' AND len(vap_failures) > 0
    UNION ALL
    SELECT * EXCLUDE (vap_failures), unnest(vap_failures) AS failure
    FROM started JOIN open_requests USING (cluster, audit_id, ts)
    UNION ALL
    SELECT * EXCLUDE (vap_failures), unnest(vap_failures) AS failure
    FROM started
    WHERE ts IS NULL
)
SELECT
    cluster, audit_id, ts,
    failure.policy, failure.binding, failure.message, failure.expression_index, failure.actions,
    list_contains(failure.actions, 'Deny') AS enforced,
    code < 400 AS admitted,
    verb, api_group, api_version, resource, subresource, namespace, name,
    CASE WHEN json_valid(impersonated_user) IS FALSE THEN NULL ELSE coalesce(impersonated_user ->> '$.username', user_name) END AS user_name,
    CASE WHEN impersonated_user IS NOT NULL THEN user_name END AS impersonator,
    user_agent, code, level, stage, flags,
    workload(api_group, resource, name, recorded_object(response_object, request_object)) AS workload
FROM failures
