-- one row per request that a ValidatingAdmissionPolicy denied: (cluster, audit_id, ts); the rows of `denials` with denier `vap`
-- policy: as in `denials`
-- binding: as in `denials`
-- message: as in `denials`
-- user_name: effective user: the impersonated one where the request impersonated
--
-- It is far quicker than `denials`, because it needs none of the other rules about refusals.
SELECT
    cluster, audit_id, ts,
    nullif(policy_denial(status_message).policy, '') AS policy,
    nullif(policy_denial(status_message).binding, '') AS binding,
    policy_denial(status_message).message AS message,
    namespace, user_name
FROM folded_requests
WHERE denied_by_policy(code, status_message)
