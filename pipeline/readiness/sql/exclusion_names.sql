-- `exclusion_names`: one row per exclusion that is worth proposing for some would-be denial, with its number
CREATE OR REPLACE TEMP TABLE exclusion_names AS
SELECT row_number() OVER ()::INTEGER AS exclusion, *
FROM (
    SELECT DISTINCT kind, value, api_group, resource, namespace
    FROM named_keys
    WHERE is_worth AND subject IN (SELECT subject FROM exposed_groups WHERE outcome = 'deny' AND NOT is_configuration)
)
