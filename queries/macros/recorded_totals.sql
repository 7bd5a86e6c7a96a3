-- one row: counts of policy evidence in a log, by events and by requests
--
-- A denied or failing CONNECT leaves two events of one request, so there are more events than requests.
CREATE MACRO recorded_totals() AS TABLE
SELECT
    (SELECT count(*) FROM events) AS events,
    (SELECT count(*) FROM events WHERE len(vap_failures) > 0) AS failure_events,
    (SELECT coalesce(sum(len(vap_failures)), 0)::BIGINT FROM events) AS failures,
    (SELECT count(*) FROM policy_denials) AS denied_requests,
    (SELECT count(*) FROM events WHERE contains(status_message, 'ValidatingAdmissionPolicy ''')) AS denial_events,
    (SELECT count(DISTINCT (cluster, audit_id, ts)) FROM audit_annotations WHERE declared_by = 'policy') AS annotated
