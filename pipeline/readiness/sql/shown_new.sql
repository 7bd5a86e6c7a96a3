-- `shown`: the (policy, binding, request) keys whose denials may be shown as counterexamples: those that are new, or perhaps new
CREATE OR REPLACE TEMP TABLE shown AS
SELECT policy, binding, cluster, audit_id, ts FROM changed WHERE fate IN ('new', 'perhaps new')
