-- one row per request that somebody refused on purpose: (cluster, audit_id, ts)
-- denier: vap, map, webhook, webhook_failure, authentication, authorization, podsecurity, quota, not_ready, disruption_budget,
--   admission or invalid: see `FROM reach_rules()`
-- policy: of a vap or map denial
-- binding: of a vap or map denial; null where the policy itself had a configuration error
-- webhook: name of the webhook that refused or could not be called
-- message: the denier's own text, without the prefix that the server puts before it
-- status_message: the whole text in the client's answer
-- recorded_failures: how many failures the same request's annotation holds
-- user_name: effective user: the impersonated one where the request impersonated
--
-- Only the first denial of a request is reported, and with several denying policies the first is undefined. Names of policies
-- cannot contain quotes, so the first closing quote ends one; a message may contain the wording again. A denied CONNECT leaves two
-- events and is one row here.
WITH failed AS (
    -- Filters on the denier stop at UNNEST. Below it, DuckDB would repeat the whole table of rules in each filter. The code classifies
    -- most requests before any text is read.
    SELECT * EXCLUDE (request_object, response_object, outcome), unnest([outcome]) AS outcome
    FROM requests
    WHERE code >= 400
),
refused AS (
    SELECT *
    FROM failed
    -- DuckDB turns a long IN into a join, which carries bodies along.
    WHERE list_position([
        'vap', 'map', 'webhook', 'webhook_failure', 'authentication', 'authorization', 'podsecurity', 'quota', 'not_ready',
        'disruption_budget', 'admission', 'invalid'
    ], outcome) > 0
),
parsed AS (
    SELECT
        *,
        CASE outcome
            WHEN 'vap' THEN policy_denial(status_message)
            WHEN 'map' THEN regexp_extract(
                status_message, '^policy ''([^'']*)'' with binding ''([^'']*)'' denied request: (.*)$',
                ['policy', 'binding', 'message'], 's')
        END AS by_policy,
        CASE WHEN outcome IN ('webhook', 'webhook_failure') THEN regexp_extract(
            status_message, '^(?:Internal error occurred: failed calling|admission) webhook "([^"]*)"(?: denied the request)?(?:: )?(.*)$',
            ['webhook', 'message'], 's')
        END AS by_webhook
    FROM refused
)
SELECT
    cluster, audit_id, ts,
    outcome AS denier,
    nullif(by_policy.policy, '') AS policy,
    nullif(by_policy.binding, '') AS binding,
    nullif(by_webhook.webhook, '') AS webhook,
    coalesce(by_policy.message, by_webhook.message, regexp_replace(status_message, denial_prefix(), ''), '') AS message,
    status_message, status_reason, code,
    verb, api_group, api_version, resource, subresource, namespace, name,
    user_name, impersonator, user_agent, level, stage,
    len(vap_failures) AS recorded_failures
FROM parsed
