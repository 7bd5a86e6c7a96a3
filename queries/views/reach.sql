-- one row per recorded request: (cluster, audit_id, ts), and how far it came in the API server; the columns of `requests`, and
-- way: `write`, `connect`, `read`, `empty` (a deletecollection that found nothing) or `url` (no resource)
-- operation: CREATE, UPDATE, DELETE or CONNECT, null without admission; a refused update or patch counts as UPDATE, though the
-- object may not have existed
-- dry_run: whether the request asked for no effect
-- rule: number in reach_rules() of the rule that matched
-- passed: the last stage that the request surely passed, in the order of reach_stages(); null where unsure
-- stopped: the stage that refused it, or the last that may have; null where no stage refused it, or the stage is unknown
-- passed_number: the number of `passed` in reach_stages()
-- stopped_number: the number of `stopped` in reach_stages()
-- why: why it came so far, or why this is unknown
-- policies: `admitted`, `denied`, `asked` (with an unknown decision), `not reached` or `unknown`
-- policies_why: why policies were asked, or not, or why this is unknown
--
-- For the other stages: `stage_answer(way, passed_number, stopped_number, 'webhooks')`. Only deletes need a body to tell how far
-- they came, so they have a branch of their own. A query that does not ask for bodies then reads few of them.
WITH recorded AS (
    SELECT *, NULL::VARCHAR AS listed, false AS dry_delete FROM folded_requests
    WHERE verb IS NULL OR verb NOT BETWEEN 'delete' AND 'deletecollection'
    UNION ALL
    SELECT
        *,
        CASE
            WHEN verb <> 'deletecollection' THEN NULL
            WHEN response_object IS NULL OR coalesce(response_object ->> '$.kind', '') NOT LIKE '%List'
                OR starts_with(response_object ->> '$.apiVersion', 'meta.k8s.io/') THEN 'unrecorded'
            WHEN coalesce(json_array_length(response_object, '$.items'), 0) = 0 THEN 'nothing'
        END,
        coalesce(json_array_length(request_object, '$.dryRun'), 0) > 0
    FROM folded_requests
    -- DuckDB pushes a range down to the files, and then reads no bodies of other requests. It does not push IN down.
    WHERE verb BETWEEN 'delete' AND 'deletecollection'
),
on_their_way AS (
    SELECT
        *,
        request_way(verb, resource, subresource, code, listed) AS way,
        recorded_wording(status_message, notes) AS wording
    FROM recorded
),
found AS (
    SELECT
        *,
        -- Filters on what follows from the rule stop at UNNEST. Below it, DuckDB would repeat the whole table of rules in each filter,
        -- and planning such a query took a second.
        unnest([
            reach_rule(way, verb, api_group, resource, subresource, code, status_reason, status_message, wording, annotations, notes, listed)
        ]) AS rule
    FROM on_their_way
),
numbered AS (
    SELECT
        *,
        CASE way
            WHEN 'connect' THEN 'CONNECT'
            WHEN 'empty' THEN 'DELETE'
            WHEN 'write' THEN CASE
                WHEN verb = 'create' OR (verb IN ('update', 'patch') AND code = 201) THEN 'CREATE'
                WHEN verb IN ('update', 'patch') THEN 'UPDATE'
                ELSE 'DELETE'
            END
        END AS operation,
        exempt_from_policies(api_group, resource) AS is_exempt,
        reach_passed(rule, annotations, notes) AS passed_number,
        reach_stopped(rule) AS stopped_number
    FROM found
)
SELECT
    * EXCLUDE (listed, dry_delete, wording, way, rule, operation, is_exempt, passed_number, stopped_number),
    way, operation,
    reach_outcome(rule) AS outcome,
    CASE
        WHEN map_contains(notes, 'dry-run') THEN true
        ELSE regexp_matches(request_uri, '[?&]dryRun=[^&]') OR (operation = 'DELETE' AND dry_delete)
    END AS dry_run,
    rule,
    stage_name(passed_number) AS passed,
    stage_name(stopped_number) AS stopped,
    reach_why(rule) AS why,
    policies_answer(way, is_exempt, passed_number, stopped_number) AS policies,
    policies_why(way, is_exempt, passed_number, stopped_number, rule) AS policies_why,
    passed_number, stopped_number
FROM numbered
