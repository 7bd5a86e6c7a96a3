-- whether a request may stay open for hours, so that its final stage may still be to come
-- verb: of the event
-- subresource: of objectRef
--
-- kubernetes/kubernetes pkg/controlplane/apiserver/config.go.
CREATE MACRO is_long_running(verb, subresource) AS
    coalesce(verb IN ('watch', 'proxy') OR list_position(['attach', 'exec', 'log', 'portforward', 'proxy'], subresource) > 0, false)
