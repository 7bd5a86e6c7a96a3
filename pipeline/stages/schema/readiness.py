"""What readiness needs to know of definitions: how far the log agrees with those of the time, and what would have to be relaxed.

Exemptions make no sense for a schema. So the proposal is the definition without the keywords that refuse recorded requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from queries import LakeReader

from ...runs import RunStore
from ...tables import Table
from ..grouped import GroupedPlan
from ..readiness import Agreed, Place, Remedy, RemedyPart, StageReadiness, StageWords
from .checking import read_definition
from .relaxing import relaxed
from .replay.definitions import Given, served_of
from .replay.figures import figures
from .sql import statement
from .tables import schema_tables


class SchemaReadiness(StageReadiness[Given, GroupedPlan[Given]]):
    """See StageReadiness."""

    words = StageWords(
        "definitions",
        "Definition readiness",
        "CustomResourceDefinition",
        thing="definition",
        remedy="Relax the definition, or have the clients below send what it allows",
    )
    # What a request held depends on the definition of its time, so that one run compares both.
    flips_against_base = True
    # A request that ended before the schema does not concern it; one that is stored otherwise is admitted.
    counted = """
        SELECT * REPLACE (CASE decision WHEN 'unreached' THEN 'nomatch' WHEN 'change' THEN 'admit' ELSE decision END AS decision)
        FROM given
    """

    def uncompilable(self, rules: Given, version: tuple[int, int]) -> Sequence[tuple[str, str]]:
        """See StageReadiness: raises for all rules of a definition."""
        served_of(rules.definitions, version)
        return ()

    def tables(self, reader: LakeReader, title: str, verdicts: Path) -> Sequence[Table]:
        """See StageReadiness."""
        return schema_tables(title, figures(reader, verdicts))

    def agreement(self, reader: LakeReader, plan: GroupedPlan[Given]) -> Sequence[Agreed] | None:
        """The recorded answers against the definitions of the time; the run has compared each request."""
        if not reader.files.lake:
            return None
        verdicts = RunStore(Path(reader.files.lake)).run(plan.run_id).verdicts
        rows = reader.connection.execute(statement("agreement"), {"verdicts": str(verdicts)}).fetchall()
        return [Agreed(*row) for row in rows]

    def remedy(self, reader: LakeReader, plan: GroupedPlan[Given], verdicts: Path) -> Remedy[Given]:
        """The definitions without the keywords that refuse recorded requests."""
        names = {read_definition(each).name: each for each in plan.rules.definitions}
        rows = reader.connection.execute(statement("refusals"), {"verdicts": str(verdicts)}).fetchall()
        found = relaxed({name: each.value for name, each in names.items()}, rows)
        parts, shown = [], set()
        for each in found.dropped:
            manifests = () if each.definition in shown else (found.definitions[each.definition],)
            shown.add(each.definition)
            parts.append(RemedyPart(each.definition, each.words, manifests, each.requests, "it refuses recorded requests"))
        documents = tuple(replace(each, value=found.definitions[name]) for name, each in names.items())
        return Remedy(tuple(parts), Given(documents, plan.rules.before), relaxes=True)

    def over(self, rules: Given, before: Given) -> Given:
        """The version before takes the place of the definitions of the time."""
        return rules.over(before)

    def places(self, rules: Given) -> Sequence[Place]:
        """Where each definition is written."""
        return [Place(read_definition(document).name, document.where()) for document in rules.definitions]
