-- one row per request in `found` that arrived in a window and belongs to a class in `classes`, with the columns of `found`
SELECT found.*
FROM found SEMI JOIN classes
    ON found.cluster = classes.cluster AND found.verb = classes.verb AND found.operation = classes.operation
    AND found.resource = classes.resource AND coalesce(found.api_group, '') = classes.api_group
    AND coalesce(found.api_version, '') = classes.api_version AND coalesce(found.subresource, '') = classes.subresource
    AND (coalesce(found.namespace, '') <> '') = classes.is_namespaced AND (coalesce(found.code, 0) >= 400) = classes.refused
WHERE ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
