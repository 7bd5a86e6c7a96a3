-- one row per object whose own controller is not known yet: those that requests name without a body, and controllers named by bodies
CREATE OR REPLACE TEMP TABLE frontier AS
SELECT DISTINCT cluster, namespace, kind, name
FROM (
    SELECT cluster, namespace, kind, name FROM subjects WHERE NOT is_whole AND owner_kind IS NULL
    UNION ALL
    SELECT cluster, namespace, owner_kind, owner_name FROM controllers WHERE owner_kind IS NOT NULL
)
WHERE name <> '*'
EXCEPT
SELECT cluster, namespace, kind, name FROM controllers
