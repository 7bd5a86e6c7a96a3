-- `named_keys`: one row per (subject, exclusion that takes it out); `cluster_names` are the users and groups of the cluster itself,
-- `controllers` those of its controllers
-- is_worth: it would also hold for the next request of that workload:
--   - A name that a controller or the server generated does not occur again.
--   - A controller acts for every writer of its objects: an exemption of the controller exempts everyone. `barred` leaves it to
--     policies that ask who sends a request.
-- Controllers give their objects their own name, a dash and a suffix.
CREATE OR REPLACE TEMP TABLE named_keys AS
WITH own AS (
    SELECT exposed_subjects.*, len(makers) > 0 AS is_made, cluster_names.name IS NOT NULL AS is_of_cluster
    FROM exposed_subjects LEFT JOIN cluster_names ON cluster_names.name = user_name
),
prefixes AS (
    SELECT
        subject, place, name, makers, is_generated, generate_name,
        unnest(list_transform(
            list_filter(range(1, len(name) + 1), lambda i: substr(name || '-', i + 1, 1) = '-'), lambda i: left(name, i)
        )) AS prefix
    FROM exposed_subjects
    WHERE name IS NOT NULL
),
grouped AS (SELECT subject, unnest(list_distinct(user_groups)) AS user_group FROM exposed_subjects),
labelled AS (SELECT subject, place, unnest(found) AS label FROM exposed_subjects JOIN label_sets USING (labels))
SELECT subject, 'namespace' AS kind, place AS value, '' AS api_group, '' AS resource, '' AS namespace, true AS is_worth
FROM own WHERE place <> ''
UNION ALL
SELECT subject, 'user', user_name, '', '', '', NOT is_made AND NOT is_of_cluster FROM own WHERE user_name <> ''
UNION ALL
SELECT subject, 'userInNamespace', user_name, '', '', place, NOT is_made AND NOT is_of_cluster FROM own WHERE user_name <> ''
UNION ALL
SELECT subject, 'controller', user_name, '', '', '', NOT is_made FROM own SEMI JOIN controllers ON controllers.name = user_name
UNION ALL
SELECT subject, 'group', user_group, '', '', '', cluster_names.name IS NULL
FROM grouped LEFT JOIN cluster_names ON cluster_names.name = user_group
UNION ALL
SELECT subject, 'objectLabel', label, '', '', place, place <> '' AND NOT list_contains($fleeting, split_part(label, '=', 1))
FROM labelled
UNION ALL
SELECT subject, 'object', name, api_group, resource, place, NOT is_made AND NOT is_generated FROM own WHERE name IS NOT NULL
UNION ALL
SELECT
    subject, 'workload', prefix, '', '', place,
    place <> '' AND CASE
        WHEN len(makers) > 0 THEN list_contains(makers, prefix)
        WHEN is_generated THEN prefix = CASE WHEN ends_with(generate_name, '-') THEN left(generate_name, -1) ELSE generate_name END
        ELSE prefix = name
    END
FROM prefixes
