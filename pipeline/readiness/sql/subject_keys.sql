-- `subject_keys`: one row per (subject, exclusion of `exclusion_names` that takes it out)
CREATE OR REPLACE TEMP TABLE subject_keys AS
SELECT subject, exclusion, is_worth
FROM named_keys JOIN exclusion_names USING (kind, value, api_group, resource, namespace)
