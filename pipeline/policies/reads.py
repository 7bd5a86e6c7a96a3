"""The parts of a request that a policy reads, so that a replay need not look up or decode the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..cel import Program, ReadSet

MANAGED_FIELDS = "managedFields"


class PolicyReads(ReadSet):
    """The read sets of several expressions together, traced through the `variables` that they use."""

    @property
    def roots(self) -> frozenset[str]:
        """The names among object, oldObject, request, params, namespaceObject and authorizer that are read."""
        return frozenset(name.partition(".")[0] for name in self.variables())

    @property
    def managed_fields(self) -> bool:
        """Whether metadata.managedFields of the request's objects are read: by name, or with all of metadata."""
        return any(reads_managed_fields(self, name) for name in ("object", "oldObject"))


def reads_managed_fields(reads: ReadSet, variable: str) -> bool:
    """Whether metadata.managedFields of a variable are read."""
    of_variable = reads.of(variable)
    metadata = of_variable.fields.get("metadata")
    everything = of_variable.whole or of_variable.elements
    return bool(everything or (metadata and (metadata.whole or metadata.elements or MANAGED_FIELDS in metadata.fields)))


def reads_of(programs: Iterable[Program], variables: Mapping[str, Program]) -> PolicyReads:
    """The read set of these programs, also through variables."""
    several = [*programs]
    together = ReadSet.union(*(program.reads_with(variables) for program in several))
    if together.root.fields.pop("variables", None):  # as a map, or by a computed name
        others = used_variables(several, variables).values()
        together = ReadSet.union(together, *(program.reads for program in others))
        together.root.fields.pop("variables", None)
    return PolicyReads(together.root)


def used_variables(programs: Iterable[Program], variables: Mapping[str, Program]) -> dict[str, Program]:
    """The variables that some programs use, also through other variables, in their order."""
    found: set[str] = set()
    pending = [*programs]
    while pending:
        reads = pending.pop().reads.of("variables")
        names = set(variables) if reads.whole or reads.elements else reads.fields.keys() & variables.keys()
        pending += [variables[name] for name in names - found]
        found |= names
    return {name: program for name, program in variables.items() if name in found}
