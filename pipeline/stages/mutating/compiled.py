"""A mutating policy with its expressions compiled.

Follows compilePolicy of kubernetes/apiserver pkg/admission/plugin/policy/mutating/compilation.go. Only mutations know the types
`Object` and `JSONPatch`; variables and match conditions do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from queries import LakeReader

from ...cel import DYN, STRING, CompileError, Environment, ObjectType, ProgramError, ResultTypeError, Type, list_of
from ...cel.library import jsonpatch
from ...cel.minors import DEFAULT
from ...manifests.stored import stored_versions
from ...policies.compile import CompiledExpression, CompiledPolicy, compiled_by
from ...policies.declarations import scope_for
from ...policies.limits import BUDGET, Limits
from ...policies.reads import PolicyReads, reads_of
from ...policies.refusing import too_new
from ..validating.decode import GROUP
from .decode import POLICY, policy_from_object
from .model import MutatingPolicy, Mutation, PatchType

Version = tuple[int, int]
# Up to 1.36 an API server panics on a list of objects as a value of a JSON patch; later ones convert it (kubernetes/apiserver
# pkg/cel/mutation/dynamic/objects.go, ConvertToNative).
_LAST_WITHOUT_LISTS = (1, 36)
_DUPLICATES_IN_PART = (1, 35)
_ROOTS = frozenset(["object", "oldObject", "request", "namespaceObject"])
# Fields of an Object may have any name, and those of a JSONPatch that it does not have are of no type (pkg/cel/mutation).
OBJECT = ObjectType("Object", others=DYN, is_root=True)
JSON_PATCH = ObjectType("JSONPatch", {"op": STRING, "path": STRING, "from": STRING, "value": DYN}, others=Type(""))
_RESULTS = {PatchType.APPLY_CONFIGURATION: OBJECT.type, PatchType.JSON_PATCH: list_of(JSON_PATCH.type)}


@dataclass(frozen=True)
class CompiledMutation:
    """One mutation. `roots` are the parts of the request that it reads, and `limits` what it may cost: each has its own budget.
    `reads` has the fields of these parts.

    `takes_lists`: the value of a JSON patch may be a list of objects. `takes_duplicates`: an object with an entry twice in a list
    can be applied to; None where only some patch releases take it.
    """

    mutation: Mutation
    expression: CompiledExpression
    roots: frozenset[str]
    reads: PolicyReads
    limits: Limits
    takes_lists: bool
    takes_duplicates: bool | None


class CompiledMutating(CompiledPolicy):
    """A mutating policy ready for many requests. What it shares with a validating policy is compiled as there."""

    def __init__(self, policy: MutatingPolicy, version: Version, defect: str = "", *, for_new: bool = False) -> None:
        """See CompiledPolicy."""
        super().__init__(policy.rules, version, defect, for_new=for_new)
        self.mutating = policy
        variables = {name: each.program for name, each in self.variables.items() if each.program}
        types = tuple((name, program.result_type) for name, program in variables.items())
        declared = _environment(version, policy.rules.param_kind is not None, types, for_new)
        self.mutations = tuple(self._compiled(each, declared, variables, version) for each in (() if defect else policy.mutations))
        self.binds_names = True
        self.reads_authorizer = self.reads_authorizer or any("authorizer" in each.roots for each in self.mutations)

    def _compiled(self, mutation: Mutation, declared: Environment, variables: object, version: Version) -> CompiledMutation:
        assert isinstance(variables, dict)
        expression = _expression(mutation, declared)
        programs = [expression.program] if expression.program else []
        reads = reads_of(programs, variables)
        limits = Limits([(BUDGET, programs)], variables)
        # pkg/admission/plugin/policy/mutating/patch/smd.go reads the object with AllowDuplicates at 1.35.6, and not at 1.35.0.
        takes_duplicates = None if version == _DUPLICATES_IN_PART else version > _DUPLICATES_IN_PART
        takes_lists = version > _LAST_WITHOUT_LISTS
        return CompiledMutation(
            mutation, expression, reads.roots & (_ROOTS | {"authorizer"}), reads, limits, takes_lists, takes_duplicates
        )

    def by_field(self) -> Iterator[tuple[str, CompiledExpression]]:
        """See CompiledPolicy."""
        yield from super().by_field()
        yield from (("mutations", each.expression) for each in self.mutations)


@lru_cache(maxsize=1024)
def compile_mutating(policy: MutatingPolicy, version: Version = DEFAULT) -> CompiledMutating:
    """Compile a policy. Never raises: an expression that does not compile is an error at each request."""
    return compiled_by(CompiledMutating, policy, version)


def too_new_expressions(
    policies: Iterable[MutatingPolicy], version: Version, reader: LakeReader | None = None
) -> list[tuple[str, str]]:
    """Where expressions of policies stand that an API server takes only if they are stored, and its words.

    The lake of a reader may show them stored.
    """
    found: list[tuple[str, str]] = []
    for policy in policies:
        known = partial(stored_versions, reader, GROUP, POLICY, policy.name, policy_from_object) if reader else list[MutatingPolicy]
        refused = too_new(CompiledMutating, policy, version, known, bool(policy.rules.resource_version))
        found += [(each.source, each.error) for each in refused]
    return found


def _expression(mutation: Mutation, declared: Environment) -> CompiledExpression:
    wanted = _RESULTS[mutation.patch_type]
    try:
        program = declared.compile(mutation.expression, (wanted,))
    except ResultTypeError as error:
        return CompiledExpression(mutation.expression, mutation.source, error=str(error))
    except ProgramError as error:
        return CompiledExpression(mutation.expression, mutation.source, error=f"program instantiation failed: {error}")
    except CompileError as error:
        return CompiledExpression(mutation.expression, mutation.source, error=f"compilation failed: {error}")
    return CompiledExpression(mutation.expression, mutation.source, program=program)


@lru_cache(maxsize=64)
def _environment(version: Version, has_params: bool, variables: Sequence[tuple[str, Type]], for_new: bool) -> Environment:
    declared = scope_for(has_params=has_params, has_authorizer=True, variables=dict(variables), object_types=(OBJECT, JSON_PATCH))
    return Environment(version, declared.variables, declared.object_types, jsonpatch.LIBRARY.functions, for_new=for_new)
