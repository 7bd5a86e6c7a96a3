-- one row per request in `chain_others`, with what the log says of its answer
SELECT
    cluster, audit_id, ts, stage_ts, 0::INTEGER AS pass,
    {
        code: coalesce(code, 0), resource: resource,
        message: CASE WHEN coalesce(code, 0) BETWEEN 200 AND 299 THEN '' ELSE coalesce(status_message, '') END,
        reason: CASE WHEN coalesce(code, 0) BETWEEN 200 AND 299 THEN '' ELSE coalesce(status_reason, '') END
    } AS question
FROM chain_others
