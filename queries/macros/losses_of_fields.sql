-- rows of `losses`: requests that were recorded without their URI, or with another one, or without the groups of their user
CREATE MACRO losses_of_fields() AS TABLE
WITH found AS (
    SELECT
        cluster, ts, resource_label(api_group, resource, subresource) AS detail,
        unnest(list_filter(
            [
                CASE
                    WHEN contains(notes['altered'], 'requestURI=') THEN 'other_uri'
                    WHEN coalesce(request_uri, '') = '' THEN 'no_uri'
                END,
                -- A server gives every user a group.
                CASE WHEN user_name <> '' AND len(user_groups) = 0 THEN 'no_groups' END
            ],
            lambda kind: kind IS NOT NULL
        )) AS kind
    FROM folded_requests
)
SELECT cluster, kind, count(*) AS count, min(ts) AS first_ts, max(ts) AS last_ts, detail
FROM found
GROUP BY cluster, kind, detail
