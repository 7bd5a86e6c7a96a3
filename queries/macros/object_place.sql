-- the namespace that an object lies in; empty for a cluster-scoped one. The URL of a Namespace names it twice, except at its creation
-- api_group: of objectRef
-- resource: of objectRef
-- namespace: of objectRef
CREATE MACRO object_place(api_group, resource, namespace) AS
    CASE WHEN resource = 'namespaces' AND coalesce(api_group, '') = '' THEN '' ELSE coalesce(namespace, '') END
