-- `still_denied`: one more row per (thing, request) of the table `tried` that a replay with exemptions would newly deny
-- thing: the policy, or with per_binding the policy and its binding
INSERT INTO still_denied
SELECT DISTINCT
    CASE WHEN $per_binding AND binding <> '' THEN policy || '/' || binding ELSE policy END AS thing,
    cluster, audit_id, ts
FROM tried
WHERE effect = 'deny' AND flip IS DISTINCT FROM 'still-denied'
