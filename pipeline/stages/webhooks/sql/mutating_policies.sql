-- one row: whether the lake shows any binding of a MutatingAdmissionPolicy, in a write or a snapshot
SELECT
    EXISTS (
        FROM events
        WHERE resource = 'mutatingadmissionpolicybindings' AND verb IN ('create', 'update', 'patch') AND code < 300
            AND ($until IS NULL OR ts < $until)
    )
    OR EXISTS (FROM objects WHERE kind = 'MutatingAdmissionPolicyBinding' AND coalesce(name, '') <> '')
