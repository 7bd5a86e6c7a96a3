-- `candidates`: one row per (policy, exclusion) that would take out a would-be denial; a namespace is excluded on a binding
-- Errors of the configuration come before match conditions, so no exclusion helps against them.
-- `barred` has the kinds and keys of labels that are not proposed; a kind without a label is barred whole.
CREATE OR REPLACE TEMP TABLE candidates AS
SELECT row_number() OVER ()::INTEGER AS candidate, *
FROM (
    SELECT DISTINCT g.policy, CASE WHEN n.kind = 'namespace' THEN g.binding END AS binding, exclusion
    FROM exposed_groups AS g
    JOIN subject_keys AS k USING (subject)
    JOIN exclusion_names AS n USING (exclusion)
    ANTI JOIN barred AS b
        ON b.policy = g.policy AND b.kind = n.kind AND (b.label IS NULL OR b.label = split_part(n.value, '=', 1))
    WHERE g.outcome = 'deny' AND NOT g.is_configuration AND k.is_worth AND NOT ($earlier AND g.is_later)
        AND (n.kind <> 'namespace' OR g.binding IS NOT NULL) AND list_contains($names, g.policy)
)
