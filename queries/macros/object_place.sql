-- the namespace that an object lies in; empty for a cluster-scoped one. A Namespace lies in none, though its URL suggests so
-- resource: of objectRef
-- namespace: of objectRef
CREATE MACRO object_place(resource, namespace) AS CASE resource WHEN 'namespaces' THEN '' ELSE coalesce(namespace, '') END
