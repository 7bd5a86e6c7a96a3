-- one row per request with a verdict, with the number of its answer
SELECT cluster, audit_id, ts, stage_ts, 0::INTEGER AS pass, {answer: answer} AS question FROM schema_passes
