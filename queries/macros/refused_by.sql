-- what refused a request with an HTTP status of 400 or more, told from what every audit level records
-- code: HTTP status code
-- reason: responseStatus.reason
-- message: responseStatus.message
-- decision: annotation authorization.k8s.io/decision
-- subresource: of objectRef
--
-- Answers, in the order in which they are told apart: vap (ValidatingAdmissionPolicy), map (MutatingAdmissionPolicy), webhook,
-- webhook_failure, authentication, authorization, podsecurity, quota, not_ready (admission had not synced yet), disruption_budget,
-- admission (any other built-in plugin), invalid, conflict, exists, not_found, unsupported (the body could not be read), throttled,
-- timeout, backend (what a proxied or connected server answered), error.
-- A policy's denial has any of four codes, so its wording is asked first. The wording is anchored: names of objects and texts of
-- other deniers may contain it (kubernetes/apimachinery pkg/api/errors/errors.go quotes names with %q, hence the escapes).
CREATE MACRO refused_by(code, reason, message, decision, subresource) AS CASE
    WHEN regexp_matches(message, denial_prefix() || 'ValidatingAdmissionPolicy ''[^'']*''(?: with binding ''[^'']*'')? denied request: ', 's') THEN 'vap'
    WHEN regexp_matches(message, '^policy ''[^'']*'' with binding ''[^'']*'' denied request: ') THEN 'map'
    WHEN regexp_matches(message, '^admission webhook "[^"]*" denied the request') THEN 'webhook'
    WHEN regexp_matches(message, '^Internal error occurred: failed calling webhook ') THEN 'webhook_failure'
    WHEN code = 401 THEN 'authentication'
    WHEN decision = 'forbid' OR (code = 403 AND regexp_matches(message, denial_prefix() || 'User "')) THEN 'authorization'
    WHEN code = 403 AND regexp_matches(message, denial_prefix() || 'violates PodSecurity "') THEN 'podsecurity'
    WHEN code = 403 AND regexp_matches(message, denial_prefix() || '(?:exceeded quota|failed quota|insufficient quota)') THEN 'quota'
    WHEN code = 403 AND contains(message, 'not yet ready to handle request') THEN 'not_ready'
    WHEN code = 429 AND subresource = 'eviction' THEN 'disruption_budget'
    WHEN subresource = 'proxy' AND coalesce(message, '') = '' THEN 'backend'
    WHEN code = 403 THEN 'admission'
    WHEN code = 422 THEN 'invalid'
    WHEN code = 409 AND reason = 'AlreadyExists' THEN 'exists'
    WHEN code = 409 THEN 'conflict'
    WHEN code IN (404, 410) THEN 'not_found'
    WHEN list_position([400, 405, 406, 413, 415], code) > 0 THEN 'unsupported'
    WHEN code = 429 THEN 'throttled'
    WHEN code IN (408, 504) THEN 'timeout'
    WHEN code >= 500 AND list_position(['attach', 'exec', 'log', 'portforward', 'proxy'], subresource) > 0 THEN 'backend'
    ELSE 'error'
END
