-- one row per object whose own controller is not looked up yet: (cluster, namespace, kind, name)
-- These are the objects that requests show without a controller, and the controllers that bodies name.
-- is_whole: whether a request shows the object itself, so that its name needs no interpretation
CREATE OR REPLACE TEMP TABLE frontier AS
SELECT cluster, namespace, kind, name, bool_or(is_whole) AS is_whole
FROM (
    SELECT cluster, namespace, kind, name, is_whole FROM subjects WHERE owner_kind IS NULL
    UNION ALL
    SELECT cluster, namespace, owner_kind, owner_name, false FROM controllers WHERE owner_kind IS NOT NULL
)
ANTI JOIN controllers USING (cluster, namespace, kind, name)
WHERE name <> '*'
GROUP BY ALL
