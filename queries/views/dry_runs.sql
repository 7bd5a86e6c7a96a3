-- one row per request that asked for no effect: (cluster, audit_id, ts)
--
-- A client asks with a query parameter, and a delete also with its body. A review of admission tells, too. The column `dry_run` of `reach` says the same of every
-- request; this view reads neither answers nor the bodies of other requests.
SELECT DISTINCT cluster, audit_id, ts FROM folded_requests
WHERE regexp_matches(request_uri, '[?&]dryRun=[^&]') OR map_contains(notes, 'dry-run')
UNION
SELECT cluster, audit_id, ts FROM folded_requests
WHERE verb BETWEEN 'delete' AND 'deletecollection' AND coalesce(json_array_length(request_object, '$.dryRun'), 0) > 0
