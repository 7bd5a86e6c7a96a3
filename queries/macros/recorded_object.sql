-- the most complete recorded body of a write: the stored object, or the client's body when the request was refused
-- response: response body, JSON
-- request: request body, JSON
CREATE MACRO recorded_object(response, request) AS
    CASE WHEN response ->> '$.kind' = 'Status' THEN request ELSE coalesce(response, request) END
