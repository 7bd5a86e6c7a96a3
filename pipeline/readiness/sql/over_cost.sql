-- one row per (policy, binding) with requests whose evaluation a CEL cost limit of the API server ended
SELECT policy, binding, count(*) AS requests_over_cost
FROM over_cost_requests
GROUP BY policy, binding
