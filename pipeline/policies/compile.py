"""A policy with its expressions compiled.

Follows compilePolicy of kubernetes/apiserver pkg/admission/plugin/policy/validating/plugin.go. Errors in a policy never raise
here. An expression that does not compile has an error instead of a program, and that error becomes its decision. Such an
expression may have compiled in the version in which its author wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

from ..cel import CompileError, Environment, Program, ProgramError, types
from ..cel.defects import defect_of
from ..cel.errors import ResultTypeError
from ..cel.minors import DEFAULT
from ..cel.projection import projector
from ..cel.stack import on_fresh_stack
from ..cel.types import DYN, Type
from ..request import Grade
from .environments import NestingError, environment, with_variable
from .known_costs import KnownCosts
from .limits import BUDGET, BUDGET_MATCH_CONDITIONS, Limits
from .messages import trimmed
from .model import NamedExpression, Policy
from .outcome import ADMIT, Evaluation, Outcome
from .reads import PolicyReads, reads_of
from .verdict import Decision, PolicyVerdict

if TYPE_CHECKING:
    from .straight import StraightPath

# Each kind of expression must have exactly one of these result types; `dyn` is not enough.
VALIDATION = MATCH_CONDITION = (types.BOOL,)
MESSAGE = (types.STRING,)
AUDIT_ANNOTATION = (types.STRING, types.NULL)

Version = tuple[int, int]
TOO_DEEP = "the types of the policy's variables nest deeper than Hindcast can compile"
# Roots that depend on the request alone; the others are bound per evaluation.
_REQUEST_ROOTS = frozenset(["object", "oldObject", "request", "namespaceObject"])


@dataclass(frozen=True)
class CompiledExpression:
    """`program` is None if the expression does not compile; `error` then says why, in kube-apiserver's words."""

    text: str
    source: str = ""
    name: str = ""
    program: Program | None = None
    error: str = ""


@dataclass(frozen=True)
class CompiledValidation:
    """`fallback` is the message that is used where messageExpression has no result."""

    expression: CompiledExpression
    message: CompiledExpression | None
    reason: str
    fallback: str


class CompiledPolicy:
    """A policy ready for many requests. It computes once everything that does not depend on the request."""

    def __init__(self, policy: Policy, version: Version, defect: str = "", *, for_new: bool = False) -> None:
        """`defect` says why Hindcast could not compile the expressions; the policy then has no programs.

        `for_new`: with the CEL for expressions that a write adds; see refusing.py.
        """
        self.policy = policy
        self.version = version
        self.defect = defect
        if defect:
            policy = replace(policy, variables=(), match_conditions=(), validations=(), audit_annotations=())
        compiler = Compiler(policy, version, for_new=for_new)
        self.variables = compiler.variables
        self.variable_names = frozenset(self.variables)
        self.match_conditions = tuple(compiler.named(each, MATCH_CONDITION) for each in policy.match_conditions)
        self.validations = compiler.validations()
        # Upstream compiles audit annotations with an authorizer and evaluates them without one.
        self.audit_annotations = tuple(compiler.named(each, AUDIT_ANNOTATION) for each in policy.audit_annotations)
        # The two most frequent results are made once; later code recognises them by identity.
        self.admitted = Evaluation(None, (ADMIT,) * len(self.validations))
        self.unmatched = {
            each.name: Evaluation(Outcome(Decision.NOMATCH, why=f"matchConditions: {each.name} is false"))
            for each in self.match_conditions
        }
        # The dispatcher caches the rows of these results by identity.
        self.constant_rows: dict[int, dict[tuple[object, ...], tuple[PolicyVerdict, ...]]] = {
            id(each): {} for each in (self.admitted, *self.unmatched.values())
        }

        messages = [each.message for each in self.validations if each.message]
        checks = [each.expression for each in self.validations]
        variables = {name: each.program for name, each in self.variables.items() if each.program}
        read = partial(_reads, variables)
        self.reads = read((*self.match_conditions, *checks, *messages, *self.audit_annotations))
        self.reads_managed_fields = self.reads.managed_fields
        self.project = projector(self.reads)
        self.condition_roots = read(self.match_conditions).roots & _REQUEST_ROOTS
        self.validation_roots = read(checks).roots & _REQUEST_ROOTS
        self.message_roots = read(messages).roots & _REQUEST_ROOTS
        self.annotation_roots = read(self.audit_annotations).roots & _REQUEST_ROOTS
        self.later_roots = self.validation_roots | self.message_roots | self.annotation_roots
        self.reads_authorizer = "authorizer" in read((*self.match_conditions, *checks)).roots
        self.pure_roots = self.reads.roots & _REQUEST_ROOTS
        # Whether the result depends on the values of the roots alone. Annotations see another namespaceObject than the other steps.
        self.is_pure = "authorizer" not in self.reads.roots and "namespaceObject" not in self.annotation_roots
        # The roots whose evidence grades the verdict. Annotations that read the authorizer run without one.
        graded = _REQUEST_ROOTS | {"authorizer"} if self.reads_authorizer else _REQUEST_ROOTS
        self.all_roots = self.reads.roots & graded
        self.roots_by_validation = tuple(read([*self.match_conditions, each]).roots & graded for each in checks)
        # The grade of a denial also depends on the evidence behind its message.
        self.roots_by_denial = tuple(
            roots | (read([each.message]).roots & graded if each.message else frozenset())
            for roots, each in zip(self.roots_by_validation, self.validations, strict=True)
        )

        conditions = (BUDGET_MATCH_CONDITIONS, _programs(self.match_conditions))
        validations = (BUDGET, _programs([*checks, *messages]))
        annotations = (BUDGET, _programs(self.audit_annotations))
        self.condition_limits = Limits([conditions], variables)
        self.limits = Limits([validations, annotations], variables)

        self.costs = KnownCosts(variables)
        self.binds_names = bool(self.variables or policy.param_kind or self.reads_authorizer)
        # The grades of the whole and of each validation, where all are equal.
        self.even_grades = {grade: (grade,) * (len(checks) + 1) for grade in Grade}

    @cached_property
    def straight(self) -> StraightPath | None:
        """The straight path through the policy; None where `straight_path` finds no such path."""
        from .straight import straight_path  # imported here because that module imports this one

        return straight_path(self)

    def by_field(self) -> Iterator[tuple[str, CompiledExpression]]:
        """Every expression with the name of its field, variables first: an API server compares expressions field by field."""
        yield from (("variables", each) for each in self.variables.values())
        yield from (("matchConditions", each) for each in self.match_conditions)
        for each in self.validations:
            yield "validations", each.expression
            if each.message:
                yield "messageExpression", each.message
        yield from (("auditAnnotations", each) for each in self.audit_annotations)

    @property
    def expressions(self) -> tuple[CompiledExpression, ...]:
        """Every expression of the policy, variables first."""
        return tuple(each for _, each in self.by_field())

    @property
    def errors(self) -> tuple[CompiledExpression, ...]:
        """The expressions that do not compile."""
        return tuple(each for each in self.expressions if each.program is None)


CompiledT = TypeVar("CompiledT", bound=CompiledPolicy)


def compile_policy(policy: Policy, version: Version = DEFAULT) -> CompiledPolicy:
    """Compiles a policy as a server of this minor version has it in memory. Never raises: other policies keep their verdicts.

    A failure here that a server would not have makes the policy unknown for every request that it matches.
    """
    return compiled_by(CompiledPolicy, policy, version)


def compiled_by(kind: Callable[..., CompiledT], policy: object, version: Version) -> CompiledT:
    """A policy, compiled by the class of its kind. Never raises: where its types nest too deep, or there is a defect
    of Hindcast, and the policy has no programs."""
    try:
        return on_fresh_stack(lambda: kind(policy, version))
    except Exception as problem:
        return kind(policy, version, TOO_DEEP if isinstance(problem, NestingError) else defect_of(problem))


def _programs(expressions: Iterable[CompiledExpression]) -> list[Program]:
    return [each.program for each in expressions if each.program is not None]


def _reads(variables: Mapping[str, Program], expressions: Iterable[CompiledExpression]) -> PolicyReads:
    return reads_of(_programs(expressions), variables)


class Compiler:
    """Compiles variables in order: each sees the earlier variables, with the types of their expressions."""

    def __init__(self, policy: Policy, version: Version, *, for_new: bool = False) -> None:
        self._policy = policy
        self._version = version
        self._for_new = for_new
        self._types: dict[str, Type] = {}
        self._environments = {True: self._declared(has_authorizer=True)}
        self._programs: dict[tuple[str, Sequence[Type] | None, bool], Program | str] = {}
        self.variables: dict[str, CompiledExpression] = {}
        for variable in policy.variables:
            compiled = self.named(variable, None)
            # Where two variables have one name, the server evaluates the later one, even if it checked the expression with the
            # earlier one.
            self.variables[variable.name] = compiled
            self._types[variable.name] = compiled.program.result_type if compiled.program else DYN
            self._environments[True] = with_variable(self._environments[True], variable.name, self._types[variable.name])
            self._programs.clear()

    def validations(self) -> tuple[CompiledValidation, ...]:
        """spec.validations. A messageExpression is compiled without the authorizer."""
        return tuple(
            CompiledValidation(
                self._compile(each.expression, VALIDATION, each.source),
                self._compile(each.message_expression, MESSAGE, each.source, has_authorizer=False)
                if each.message_expression
                else None,
                each.reason,
                trimmed(each.message) or f"failed expression: {trimmed(each.expression)}",
            )
            for each in self._policy.validations
        )

    def named(self, named: NamedExpression, expected: Sequence[Type] | None) -> CompiledExpression:
        """A variable, match condition or audit annotation."""
        return self._compile(named.expression, expected, named.source, named.name)

    def _compile(
        self, text: str, expected: Sequence[Type] | None, source: str, name: str = "", *, has_authorizer: bool = True
    ) -> CompiledExpression:
        key = (text, expected, has_authorizer)
        if key not in self._programs:
            self._programs[key] = self._program(text, expected, has_authorizer)
        found = self._programs[key]
        if isinstance(found, str):
            return CompiledExpression(text, source, name, error=found)
        return CompiledExpression(text, source, name, found)

    def _program(self, text: str, expected: Sequence[Type] | None, has_authorizer: bool) -> Program | str:
        """The program, or the reason why there is no program. A policy may repeat an expression hundreds of times."""
        try:
            return self._environment(has_authorizer).compile(text, expected)
        except ResultTypeError as error:
            return str(error)
        except ProgramError as error:
            return f"program instantiation failed: {error}"
        except CompileError as error:
            return f"compilation failed: {error}"

    def _environment(self, has_authorizer: bool) -> Environment:
        """The environment with all variables so far. The one without the authorizer is made when all variables are known."""
        if has_authorizer not in self._environments:
            self._environments[has_authorizer] = self._declared(has_authorizer=has_authorizer)
        return self._environments[has_authorizer]

    def _declared(self, *, has_authorizer: bool) -> Environment:
        has_params = self._policy.param_kind is not None
        variables = tuple(self._types.items())
        return environment(
            self._version, has_params=has_params, has_authorizer=has_authorizer, variables=variables, for_new=self._for_new
        )
