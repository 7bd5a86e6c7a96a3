"""The rules of a schema (`x-kubernetes-validations`), compiled node by node, with their estimated costs.

Follows apiextensions-apiserver pkg/apiserver/schema/cel/{compilation,validation}.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from ...cel import ast
from ...cel.checking.check import check
from ...cel.checking.schema_types import REQUEST_BYTES_MAX, SchemaType, escape, schema_type
from ...cel.costs.estimate import Path, estimate, schema_sizes
from ...cel.costs.ranges import Range
from ...cel.environment import Environment
from ...cel.errors import CompileError, ProgramError
from ...cel.program import Program
from ...cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, NULL, STRING, TIMESTAMP, TYPE, UINT, Type, optional_of
from ...cel.versions import differs_for_new, why_refused
from .field_paths import FieldPathError, field_path
from .formats import Version
from .props import Props, Rule

_TYPE_NAME: Final = "selfType"
_COMPARING: Final = frozenset(("_==_", "_!=_", "_+_", "@in"))
_WITHOUT_LISTS: Final = frozenset(each.name for each in (BOOL, BYTES, DOUBLE, DURATION, INT, NULL, STRING, TIMESTAMP, TYPE, UINT))


@dataclass(frozen=True)
class CompiledRule:
    """One rule. `error` says why it does not compile; a rule without a text has neither an error nor a program."""

    rule: Rule
    program: Program | None = None
    error: str = ""
    uses_old_self: bool = False
    cost_max: int = 0
    message: Program | None = None
    message_error: str = ""
    message_cost_max: int = 0
    path: str = ""
    compares_lists: bool = False  # Whether it compares or joins values that may hold lists.

    @property
    def shown(self) -> str:
        """The rule in messages: its own message, else its text."""
        return (self.rule.message or self.rule.rule).strip()


@dataclass(frozen=True)
class NodeRules:
    """The rules of a node and of the nodes within it that have any."""

    schema: Props
    rules: tuple[CompiledRule, ...] = ()
    properties: Mapping[str, NodeRules] = field(default_factory=dict)
    items: NodeRules | None = None
    values: NodeRules | None = None
    is_resource: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to evaluate."""
        return not (self.rules or self.properties or self.items or self.values)


def compile_rules(schema: Props, version: Version, is_resource: bool = True) -> NodeRules | None:
    """The rules of a whole schema; None if it has none."""
    if not any(node.rules for node in _structure(schema)):
        return None
    return _node(schema, declared_type(schema, is_resource), version, is_resource)


def _structure(schema: Props) -> Iterator[Props]:
    yield schema
    for each in (*schema.properties.values(), schema.items, schema.values):
        if each is not None:
            yield from _structure(each)


def declared_type(schema: Props, is_resource: bool) -> SchemaType | None:
    """The type of `self` at a node; None if the node cannot be shown to CEL."""
    return schema_type(schema.raw, _TYPE_NAME, is_resource)


def _node(schema: Props, type_: SchemaType | None, version: Version, is_resource: bool) -> NodeRules:
    properties: dict[str, NodeRules] = {}
    for name, below in schema.properties.items():
        escaped = escape(name)
        if escaped is None:
            below_type = declared_type(below, below.is_embedded_resource)
        else:
            below_type = None if type_ is None else type_.fields.get(escaped)
        if below_type is None:
            continue  # Upstream evaluates nothing within a field that CEL cannot see.
        found = _node(below, below_type, version, below.is_embedded_resource)
        if not found.is_empty:
            properties[name] = found
    element = None if type_ is None else type_.element
    inner = [
        None if each is None else _node(each, element, version, each.is_embedded_resource) for each in (schema.items, schema.values)
    ]
    items, values = [None if each is None or each.is_empty else each for each in inner]
    rules = node_rules(schema, type_, version) if schema.rules else ()
    return NodeRules(schema, rules, properties, items, values, is_resource)


class StoredRules(NamedTuple):
    """The texts of the rules and the message expressions that a server has stored in a definition: the others are new."""

    rules: frozenset[str] = frozenset()
    messages: frozenset[str] = frozenset()

    @classmethod
    def of(cls, schemas: Iterable[Props]) -> StoredRules:
        """Those of some schemas."""
        found = [rule for schema in schemas for node in schema.nodes() for rule in node.rules]
        return cls(frozenset(each.rule for each in found), frozenset(each.message_expression for each in found))


NOTHING_STORED: Final = StoredRules()


class Server(NamedTuple):
    """A server that is asked to write a definition: its version, and what it has stored of it; None for all of it."""

    version: Version
    stored: StoredRules | None = NOTHING_STORED


def node_rules(
    schema: Props, type_: SchemaType | None, version: Version, stored: StoredRules | None = None
) -> tuple[CompiledRule, ...]:
    """The rules of one node, over a `self` of this type. A server that evaluates them has `stored` all of them: None."""
    if type_ is None:
        return tuple(CompiledRule(each, error="failed to convert to declType for CEL validation rules") for each in schema.rules)
    scoped = type_.type
    types = tuple(type_.object_types())
    kept = stored if differs_for_new(version) else None
    environments = {
        (is_optional, for_new): Environment(version, {"self": scoped, "oldSelf": old}, types, for_new=for_new)
        for is_optional, old in ((False, scoped), (True, optional_of(scoped)))
        for for_new in ((False,) if kept is None else (False, True))
    }

    def compiled(rule: Rule) -> CompiledRule:
        is_optional = bool(rule.optional_old_self)
        found = _rule(rule, environments[is_optional, False], schema, type_)
        if kept is None:
            return found
        new = _rule(rule, environments[is_optional, True], schema, type_)
        why = f"\n{why_refused(version)}"
        if rule.rule not in kept.rules and new.error and not found.error:
            return replace(found, error=new.error + why)
        if rule.message_expression not in kept.messages and new.message_error and not found.message_error:
            return replace(found, message_error=new.message_error + why)
        return found

    return tuple(map(compiled, schema.rules))


def _rule(rule: Rule, environment: Environment, schema: Props, type_: SchemaType) -> CompiledRule:
    if not rule.rule.strip():
        return CompiledRule(rule)
    try:
        program = environment.compile(rule.rule)
    except CompileError as problem:
        return CompiledRule(rule, error=f"{_failed('', problem)}{problem}")
    if program.result_type != BOOL:
        return CompiledRule(rule, error="cel expression must evaluate to a bool")
    message, message_error = None, ""
    if rule.message_expression:
        try:
            message = environment.compile(rule.message_expression)
        except CompileError as problem:
            message_error = f"{_failed('messageExpression ', problem)}{problem}"
        else:
            if message.result_type != STRING:
                message, message_error = None, "messageExpression must evaluate to a string"
    try:
        path = field_path(rule.field_path, schema)[0] if rule.field_path else ""
    except FieldPathError:
        path = ""
    return CompiledRule(
        rule,
        program,
        uses_old_self=_reads(program.ast, "oldSelf"),
        cost_max=_cost_max(program, environment, type_),
        message=message,
        message_error=message_error,
        message_cost_max=0 if message is None else _cost_max(message, environment, type_),
        path=path,
        compares_lists=_compares_lists(program, environment),
    )


def _failed(subject: str, problem: CompileError) -> str:
    return (
        f"{subject or 'program '}instantiation failed: " if isinstance(problem, ProgramError) else f"{subject}compilation failed: "
    )


def _cost_max(program: Program, environment: Environment, type_: SchemaType) -> int:
    checked = check(program.ast, environment.scope, program.text)

    def sizes(path: Path, kind: Type) -> Range | None:
        # Upstream takes every path to begin at `self`, even that of a name such as `int` (cel/compilation.go EstimateSize).
        return schema_sizes({path[0]: type_})(path, kind) if path else None

    return estimate(program.ast, checked, environment.scope, sizes).max


def _compares_lists(program: Program, environment: Environment) -> bool:
    types = check(program.ast, environment.scope, program.text).types
    pending: list[ast.Expr] = [program.ast]
    while pending:
        node = pending.pop()
        operands = node.arguments if isinstance(node, ast.Call) and node.function in _COMPARING else ()
        if any(types.get(each.id, DYN).name not in _WITHOUT_LISTS for each in operands):
            return True
        pending += ast.children(node)
    return False


def cardinality_max(type_: SchemaType) -> int:
    """How many values of this type a request can hold at most."""
    return REQUEST_BYTES_MAX // (type_.bytes_min + 1)


def _reads(tree: ast.Expr, name: str) -> bool:
    """Whether an expression reads a variable of this name that no macro binds."""
    if isinstance(tree, ast.Ident):
        return tree.name == name
    if isinstance(tree, ast.Comprehension) and name in tree.variables:
        return _reads(tree.range, name)
    if isinstance(tree, ast.OptionalMap) and tree.variable == name:
        return _reads(tree.target, name)
    return any(_reads(each, name) for each in ast.children(tree))
