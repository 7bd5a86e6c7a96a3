-- one row per (policy, binding) with requests that a CEL cost limit ends under the new version and did not end under the base
SELECT n.policy, n.binding, count(*) AS requests
FROM over_cost_requests AS n
ANTI JOIN over_cost_before AS b USING (policy, cluster, audit_id, ts)
GROUP BY n.policy, n.binding
