-- the owner reference whose `controller` is true, JSON; null where an object has no such reference
-- object: JSON of an object
--
-- This uses json_extract and not `->`: among the arguments of a list function DuckDB reads the arrow as a lambda.
CREATE MACRO controller_of(object) AS list_filter(
    json_extract(object, '$.metadata.ownerReferences[*]'),
    lambda owner: json_extract_string(owner, '$.controller') = 'true'
)[1]
