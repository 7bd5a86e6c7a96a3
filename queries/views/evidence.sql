-- one row per kind of recorded request: (cluster, api_group, resource, subresource, verb, level, truncated)
-- truncated: the server cut the event because it was too large
-- events: recorded events, all stages
-- with_request: events with a request body
-- with_response: events with a response body
-- with_object: events whose response is a whole object, not a Status, Table or PartialObjectMetadata
-- with_failures: events with a validation_failure annotation
-- failures: failures in those annotations
-- first_ts: earliest request
-- last_ts: latest request
--
-- An API server writes the kind first, so most bodies need no parsing to find it.
SELECT
    cluster, api_group, resource, subresource, verb, level,
    list_contains(flags, 'truncated') AS truncated,
    count(*) AS events,
    count(request_object) AS with_request,
    count(response_object) AS with_response,
    count(*) FILTER (
        coalesce(nullif(regexp_extract(response_object, '^\{"kind":"([A-Za-z0-9]+)"', 1), ''), response_object ->> '$.kind')
        NOT IN ('Status', 'Table', 'PartialObjectMetadata')
    ) AS with_object,
    count(*) FILTER (len(vap_failures) > 0) AS with_failures,
    sum(len(vap_failures))::BIGINT AS failures,
    min(ts) AS first_ts,
    max(ts) AS last_ts
FROM events
GROUP BY ALL
