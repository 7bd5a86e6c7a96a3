-- `exposed_subjects`: one row per subject in `exposed`: what exemptions can tell apart of a request, whatever the policy
-- place: as `namespace`
-- makers: the names of the object's controllers
-- is_generated: the server made the name
-- workload: the number of the root owner
-- rows: the rows of `exposed` that have it
CREATE OR REPLACE TEMP TABLE exposed_subjects AS
SELECT
    row_number() OVER ()::INTEGER AS subject,
    *,
    list_transform(chain[2:], lambda step: substr(step, strpos(step, '/') + 1)) AS makers,
    generate_name <> '' AND name IS NOT NULL AND starts_with(name, generate_name) AS is_generated,
    dense_rank() OVER (ORDER BY cluster, place, chain[-1])::INTEGER AS workload
FROM (
    SELECT
        cluster, namespace AS place, user_name, user_groups, api_group, resource, subresource, name, chain, labels, generate_name,
        list(rowid) AS rows
    FROM exposed
    GROUP BY ALL
)
