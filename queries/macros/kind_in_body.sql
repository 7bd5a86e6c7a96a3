-- the kind of a custom resource, as a body of it names its own; null where the body is something else
-- api_group: of objectRef
-- object: JSON of a body
CREATE MACRO kind_in_body(api_group, object) AS CASE
    WHEN split_part(object ->> '$.apiVersion', '/', 1) = api_group
        AND (object ->> '$.kind') NOT IN ('DeleteOptions', 'PatchOptions', 'Status', 'Table', 'Scale', 'PartialObjectMetadata')
        AND NOT ends_with(object ->> '$.kind', 'List')
    THEN object ->> '$.kind'
END
