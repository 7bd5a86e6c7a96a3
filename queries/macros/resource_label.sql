-- a resource as users write it: `deployments.apps/scale`, or `a URL that names no resource`
-- api_group: of objectRef
-- resource: of objectRef
-- subresource: of objectRef
CREATE MACRO resource_label(api_group, resource, subresource) AS CASE
    WHEN resource IS NULL THEN 'a URL that names no resource'
    ELSE concat_ws('/', concat_ws('.', resource, nullif(api_group, '')), nullif(subresource, ''))
END
