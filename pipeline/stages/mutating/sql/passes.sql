-- one row per pass of a request that a policy is for, with the number of the answer
SELECT cluster, audit_id, ts, stage_ts, pass, {answer: answer} AS question FROM mutating_answers
