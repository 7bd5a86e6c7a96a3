"""Reads the manifests of chains: every mistake is an InputError with file and line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain as joined

from ingest.errors import InputError

from ...cel import BOOL
from ...cel.errors import CompileError, ProgramError
from ...manifests.documents import Document
from ...manifests.fields import Fields
from .chain import Authorizer, Builtin, Chain, Reads, Shape, conditions_in
from .expressions import CEL_TYPES, when_environment, write_environment
from .logic.translate import Semantics
from .model import CONDITIONS_MAX, Condition, Decision, Effect, Plain, conditions_map, problem_of
from .reviews import REVIEW_GROUP, REVIEW_KINDS, review_of

GROUP, VERSION, KIND = "hindcast", "v1alpha1", "AuthorizerChain"
_LISTS = {"denyConditions": Effect.DENY, "noOpinionConditions": Effect.NO_OPINION, "allowConditions": Effect.ALLOW}
EXPRESSION_BYTES_MAX, DESCRIPTION_BYTES_MAX = 10_240, 1_024


def chains_of(documents: Iterable[Document], version: tuple[int, int] = (1, 37)) -> tuple[Chain, ...]:
    """The chains among some manifests. Raises InputError, also for two chains that would both replace the cluster's authorizers."""
    found = [read for document in documents if (read := _chain_of(document)) is not None]
    whole = [each for each in found if each.about is None]
    if len(whole) > 1:
        places = " and ".join(each.source for each in whole)
        raise InputError(f"{places}: found {len(whole)} chains, wanted one", "a server has one chain; give the other to --against")
    names = [each.name for each in found]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise InputError(f"{found[0].source}: two chains have the name {twice!r}", "rename one of them")
    for each in found:
        _compile(each, version)
    return tuple(found)


def _chain_of(document: Document) -> Chain | None:
    root = Fields(document)
    group, separator, version = root.text("apiVersion", "").partition("/")
    kind = root.text("kind", "")
    if (group if separator else "") == REVIEW_GROUP and kind in REVIEW_KINDS:
        return review_of(root)
    if group != GROUP or kind != KIND:
        return None
    if version != VERSION:
        raise root.error(f": found {group}/{version}, wanted {GROUP}/{VERSION}", "apiVersion", "docs/chains.md has an example")
    root.only("apiVersion", "kind", "metadata", "spec")
    metadata, spec = root.object("metadata"), root.object("spec")
    if metadata is None or spec is None:
        raise root.error(" is required", "metadata" if metadata is None else "spec")
    spec.only("reads", "authorizers")
    authorizers = tuple(_authorizer(each) for each in spec.objects("authorizers"))
    if not authorizers:
        raise spec.error(" must name at least one authorizer", "authorizers")
    _unique(authorizers)
    reads = Reads(spec.text("reads", Reads.ENFORCE, Reads))
    return Chain(metadata.text("name"), Shape.CHAIN, authorizers, reads, source=root.where())


def _authorizer(fields: Fields) -> Authorizer:
    fields.only("name", "type", "when", "semantics", "decision", "reason", "conditions", *_LISTS)
    name = fields.text("name")
    if not name:
        raise fields.error(" must not be empty", "name")
    semantics = Semantics(given) if (given := fields.text("semantics", "", Semantics)) else None
    return Authorizer(name, _decision(fields), fields.text("when", ""), semantics, fields.where())


def _decision(fields: Fields) -> Decision | Builtin:
    forms = [form for form in ("type", "decision", "conditions") if fields.has(form)]
    forms += ["denyConditions"] if any(fields.has(each) for each in _LISTS) else []
    if len(forms) != 1:
        found = f"both {' and '.join(forms)}" if forms else "none of them"
        raise fields.error(f" must have one of type, decision, conditions, or the three lists of conditions, and has {found}")
    if forms == ["type"]:
        return Builtin(fields.text("type", None, Builtin))
    if forms == ["decision"]:
        return Plain(Effect(fields.text("decision", None, Effect)), fields.text("reason", ""))
    lists: dict[Effect, list[Condition]] = {effect: [] for effect in _LISTS.values()}
    for each in fields.objects("conditions"):
        each.only("id", "effect", "condition", "type", "description")
        lists[Effect(each.text("effect", None, Effect))].append(_condition(each))
    for name, effect in _LISTS.items():
        for each in fields.objects(name):
            each.only("id", "condition", "type", "description")
            lists[effect].append(_condition(each))
    found_all = [*joined.from_iterable(lists.values())]
    _accepted(fields, found_all)
    return conditions_map(lists[Effect.DENY], lists[Effect.NO_OPINION], lists[Effect.ALLOW])


def _condition(fields: Fields) -> Condition:
    expression, description = fields.text("condition"), fields.text("description", "")
    for field, text, most in (("condition", expression, EXPRESSION_BYTES_MAX), ("description", description, DESCRIPTION_BYTES_MAX)):
        if len(text.encode()) > most:
            raise fields.error(f" must have at most {most:,} bytes, not {len(text.encode()):,}", field)
    return Condition(fields.text("id"), expression, fields.text("type", ""), description, fields.where("condition"))


def _accepted(fields: Fields, conditions: Sequence[Condition]) -> None:
    """Refuse lists that a server would answer by failing closed: in a file they are a mistake."""
    if not conditions:
        raise fields.error(" must have at least one condition", "conditions")
    if len(conditions) > CONDITIONS_MAX:
        raise fields.error(f" must have at most {CONDITIONS_MAX} conditions in all, not {len(conditions)}")
    if problem := problem_of(conditions):
        raise fields.error(f": {problem}", "", "an id is unique in its authorizer and has the form of a label key")


def _unique(authorizers: Sequence[Authorizer]) -> None:
    seen: set[str] = set()
    for each in authorizers:
        if each.name in seen:
            raise InputError(f"{each.source}: two authorizers have the name {each.name!r}", "rename one of them")
        seen.add(each.name)


def _compile(chain: Chain, version: tuple[int, int]) -> None:
    """Refuse expressions that do not compile to a boolean."""
    for each in chain.authorizers:
        texts = [(each.when, f"{each.source}: when", when_environment(version))] if each.when else []
        for condition in conditions_in(each.decision):
            if condition.type in CEL_TYPES:
                where = f"{condition.source or each.source}: condition {condition.id}"
                texts.append((condition.expression, where, write_environment(version)))
        for text, where, environment in texts:
            try:
                environment.compile(text, [BOOL])
            except (CompileError, ProgramError) as problem:
                raise InputError(
                    f"{where}: {problem}", "variables: request, and in conditions object, oldObject and options"
                ) from None
