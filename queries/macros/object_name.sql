-- the name of the object that a write is about: a generated one is in the response alone, and a deletecollection has none
-- name: of objectRef
-- verb: of the event
-- response: response body, JSON
CREATE MACRO object_name(name, verb, response) AS
    CASE WHEN name IS NOT NULL OR verb <> 'create' THEN coalesce(name, '') ELSE coalesce(response ->> '$.metadata.name', '') END
