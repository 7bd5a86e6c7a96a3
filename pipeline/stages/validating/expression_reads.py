"""The fields that the validations of policies read, by policy and expression."""

from __future__ import annotations

from functools import cache

from ...cel import ReadSet
from ...policies.compile import compile_policy
from ...policies.model import PolicySet
from ...policies.reads import reads_of


class ExpressionReads:
    """Read sets, computed on the first call and cached: `of(policy, index)`; without an index, that of the whole policy."""

    def __init__(self, policies: PolicySet, version: tuple[int, int]) -> None:
        self._policies = {policy.name: policy for policy in policies.policies}
        self._version = version
        self.of = cache(self._of)

    def _of(self, name: str, index: int | None) -> ReadSet:
        compiled = compile_policy(self._policies[name], self._version)
        if index is None:
            return compiled.reads
        variables = {key: each.program for key, each in compiled.variables.items() if each.program}
        program = compiled.validations[index].expression.program
        return reads_of([program] if program else [], variables)
