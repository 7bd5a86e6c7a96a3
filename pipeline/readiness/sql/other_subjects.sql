-- one row if a request in `judged` is not in `subjects`
SELECT true AS is_other FROM judged ANTI JOIN subjects USING (cluster, audit_id, ts) LIMIT 1
