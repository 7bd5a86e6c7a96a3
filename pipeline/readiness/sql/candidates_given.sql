-- `candidates`: one row per exclusion in `given_exclusions`, with its number there
CREATE OR REPLACE TEMP TABLE candidates AS
SELECT g.candidate, g.policy, g.binding, n.exclusion
FROM given_exclusions AS g JOIN exclusion_names AS n USING (kind, value, api_group, resource, namespace)
