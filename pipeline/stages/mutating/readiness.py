"""What readiness needs to know of mutating policies: a refusal of the changed object by a later stage counts as a denial too."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from queries import LakeReader

from ...explaining.asked import Asked
from ...explaining.explanation import Told as Explained
from ...manifests.documents import Document
from ...runs.flips import flips
from ...tables import Table
from ..as_of import AsOf
from ..grouped import GroupedPlan
from ..readiness import Objection, StageReadiness, StageWords
from .as_of import policies_as_of, policies_before
from .compiled import compile_mutating
from .exempting import MutatingExemptions
from .explain import explain_mutating
from .model import MutatingRules
from .objections import objections
from .serving import unserved
from .summary import Told, changed_paths, mutated, not_applied
from .tables import mutating_tables


class MutatingReadiness(StageReadiness[MutatingRules, GroupedPlan[MutatingRules]]):
    """See StageReadiness."""

    words = StageWords(
        "mutating policies",
        "Readiness of mutating policies",
        "MutatingAdmissionPolicy",
        thing="mutating policy",
        passes=("leaves it as it is", "leave it as it is"),
        remedy="Mend the policies, or have the clients below send objects that fit them",
    )
    exemptions = MutatingExemptions()
    in_log = True
    # The row of a request as a whole knows the answer of later stages, and whether the cluster refused the request already.
    # It is no policy: where nothing more is known of a request, each policy that it concerns is unknown.
    counted = """
        SELECT given.* REPLACE (
            CASE WHEN later IS NOT NULL AND given.decision = 'changed' THEN 'deny' ELSE given.decision END AS decision,
            CASE WHEN later IS NOT NULL AND given.decision = 'changed' THEN 'deny' ELSE given.effect END AS effect,
            CASE WHEN later IS NOT NULL AND given.decision = 'changed' THEN later ELSE given.message END AS message,
            given.bypasses_actions OR (later IS NOT NULL AND given.decision = 'changed') AS bypasses_actions,
            CASE
                WHEN whole.flip = 'still-denied' OR (given.effect = 'deny' AND whole.flip = 'same') THEN 'still-denied'
                ELSE coalesce(given.flip, whole.flip)
            END AS flip
        )
        FROM given LEFT JOIN (
            SELECT cluster, audit_id, ts, pass, flip, json_extract_string(detail, '$.later[0]') AS later
            FROM given
            WHERE policy = 'mutating'
        ) AS whole USING (cluster, audit_id, ts, pass)
        WHERE given.policy <> 'mutating'
        UNION ALL BY NAME
        SELECT * EXCLUDE (concerned) REPLACE (
            concerned.policy AS policy, concerned.binding AS binding, 'MutatingAdmissionPolicy/' || concerned.policy AS rule_ref
        )
        FROM (
            SELECT *, unnest(from_json(detail, '{"concerns": [{"policy": "VARCHAR", "binding": "VARCHAR"}]}').concerns) AS concerned
            FROM given
            WHERE policy = 'mutating' AND decision = 'unknown'
        )
    """

    def asks_about(self, rules: MutatingRules, policy: str, binding: str | None) -> bool:
        """See StageReadiness: the row of a request as a whole is no policy, whatever a policy is called."""
        return any(each.name == policy for each in rules.policies)

    def uncompilable(self, rules: MutatingRules, version: tuple[int, int]) -> Sequence[tuple[str, str]]:
        """See StageReadiness."""
        return [(each.source, each.error) for policy in rules.policies for each in compile_mutating(policy, version).errors]

    def remarks(self, rules: MutatingRules, version: tuple[int, int]) -> Sequence[str]:
        """See StageReadiness: versions of the API that a server does not have."""
        return [f"{where}: {why}" for where, why in unserved(rules, version)]

    def objections(self, reader: LakeReader, verdicts: Path, rules: MutatingRules | None) -> Sequence[Objection]:
        """See StageReadiness: idempotence, order, lost changes and fights with controllers."""
        return objections(reader, verdicts, rules)

    def explain(self, reader: LakeReader, rules: MutatingRules | None, asked: Asked) -> Sequence[Explained]:
        """See StageReadiness."""
        return explain_mutating(reader, rules, asked)

    def recorded(self, reader: LakeReader, cluster: str, moment: datetime) -> AsOf[Document]:
        """See StageReadiness."""
        return policies_as_of(reader, cluster, moment)

    def tables(self, reader: LakeReader, title: str, verdicts: Path) -> Sequence[Table]:
        """See StageReadiness."""
        told = Told(mutated(reader, verdicts), changed_paths(reader, verdicts), not_applied(reader, verdicts))
        return mutating_tables(title, told, flips(reader, verdicts))

    def as_of(self, reader: LakeReader, cluster: str, moment: datetime, rules: MutatingRules, replaces_all: bool) -> MutatingRules:
        """See StageReadiness."""
        return policies_before(reader, cluster, moment, rules, replaces_all)
