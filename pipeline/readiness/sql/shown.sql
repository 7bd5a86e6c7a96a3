-- `shown`: the (policy, binding, request) keys whose denials may be shown as counterexamples: all of them
CREATE OR REPLACE TEMP TABLE shown AS
SELECT policy, binding, cluster, audit_id, ts FROM outcomes WHERE outcome = 'deny'
