-- the name of the object of a write; a generated name is only in the response, and a deletecollection has no name
-- name: of objectRef
-- verb: of the event
-- response: response body, JSON
CREATE MACRO object_name(name, verb, response) AS
    CASE WHEN name IS NOT NULL OR verb <> 'create' THEN coalesce(name, '') ELSE coalesce(response ->> '$.metadata.name', '') END
