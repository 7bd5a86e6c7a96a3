"""What a policy reads of a request, so that a replay need not look up or decode the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...cel import Program, ReadSet


class PolicyReads(ReadSet):
    """The read sets of several expressions together, with those of the `variables` that they use in place of `variables`.

    What an expression reads of a variable's value is not traced back: a variable that is used counts with its whole value.
    """

    @property
    def roots(self) -> frozenset[str]:
        """Which of object, oldObject, request, params, namespaceObject and authorizer are read."""
        return frozenset(name.partition(".")[0] for name in self.variables())


def reads_of(programs: Iterable[Program], variables: Mapping[str, Program]) -> PolicyReads:
    """What these programs read, also through variables."""
    several = [*programs]
    several += used_variables(several, variables).values()
    together = ReadSet.union(*(program.reads for program in several))
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
