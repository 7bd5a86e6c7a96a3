"""Matches one request with one MatchResources. Follows kubernetes/apiserver pkg/admission/plugin/policy/matching/matching.go.

Upstream evaluates the selectors first, then the rules; an error of a selector counts only if the rules match. This module evaluates
the rules first: the outcome is the same, and it skips the lookups for selectors that do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..request import AdmissionRequest, Evidence, Grade, GroupVersionKind, GroupVersionResource, Known, Object, Unknown, worst
from ..world import World
from .equivalence import Conversion, Equivalent, built_in_family, equivalents
from .namespaces import NOTHING_READ, NamespaceMissingError, namespace_selected
from .objects import missing, object_selected
from .rules import Rule, Target, is_excluded
from .selectors import LabelSelector


@dataclass(frozen=True, slots=True)
class MatchResources:
    """matchConstraints of a policy, or matchResources of a binding. A selector of None is nil: matching with it is an error."""

    resource_rules: tuple[Rule, ...] = ()
    exclude_resource_rules: tuple[Rule, ...] = ()
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    match_policy: str = "Exact"  # the meaning of nil; the API server writes the default Equivalent


@dataclass(frozen=True, slots=True)
class Match:
    """Whether a request matches, and why.

    `why` names the selector or rule that did not match, or the missing evidence. `error` is a configuration error in upstream's
    words; `matched` is then False. The policy sees `matched_resource` and `matched_kind` as request.resource and request.kind.
    """

    matched: bool | Unknown
    why: str = ""
    matched_resource: GroupVersionResource | None = None
    matched_kind: Evidence[GroupVersionKind] | None = None
    conversion: Conversion = Conversion.NONE
    grade: Grade = Grade.EXACT
    error: str = ""


@dataclass(frozen=True, slots=True)
class _RuleHit:
    """The outcome of a list of rules. `equivalent` is set if the request was found as another resource."""

    hit: bool | Unknown
    equivalent: Equivalent | None = None
    grade: Grade = Grade.EXACT


_SELECTED = Match(True)
_MISS = _RuleHit(False)
_HIT = _RuleHit(True)


class _RuleList:
    """Rules, with a cache of the results that depend on the target alone."""

    def __init__(self, rules: tuple[Rule, ...], match_policy: str) -> None:
        self.rules = rules
        self.is_equivalent = match_policy == "Equivalent"
        self._hits: dict[Target, tuple[tuple[Rule, ...], bool]] = {}

    def possible(self, target: Target) -> tuple[tuple[Rule, ...], bool]:
        """The rules that match except for the name, and whether an equivalent resource could match as well."""
        found = self._hits.get(target)
        if found is None:
            hits = tuple(rule for rule in self.rules if rule.mismatch(target) is None)
            also = self.is_equivalent and any(_matches_another(rule, target) for rule in self.rules)
            found = self._hits[target] = (hits, also)
        return found

    def ask(self, request: AdmissionRequest, target: Target, world: World) -> _RuleHit:
        """Tests all rules with the request's own resource first, then all with its equivalents."""
        hits, also = self.possible(target)
        unsure = _MISS
        for rule in hits:
            named = rule.name_matches(request.name)
            if named is True:
                return _HIT
            if isinstance(named, Unknown):
                unsure = _RuleHit(Unknown(f"the rule names {list(rule.resource_names)} and the name is unknown: {named.reason}"))
        if not also or unsure is not _MISS:
            return unsure
        return self._ask_equivalents(request, target, world)

    def _ask_equivalents(self, request: AdmissionRequest, target: Target, world: World) -> _RuleHit:
        others = equivalents(target.resource, target.subresource, world)
        if isinstance(others, Unknown):
            return _RuleHit(others)
        for rule in self.rules:
            for other in others.value:
                if rule.mismatch(target._replace(resource=other.resource)) is None:
                    named = rule.name_matches(request.name)
                    if named is not False:
                        return _RuleHit(named, other, others.grade)
        return _MISS


def _matches_another(rule: Rule, target: Target) -> bool:
    """Whether the rule could match under an equivalent resource, as far as the rule and the target alone can say."""
    own = target.resource
    # A rule for every version has matched already, so only a rule with named versions can match an equivalent resource.
    named = [GroupVersionResource(own.group, version, own.resource) for version in rule.api_versions]
    others = [other for other in built_in_family(own) or named if other != own]
    return any(rule.mismatch(target._replace(resource=other)) is None for other in others)


class Matcher:
    """Matches many requests with one MatchResources. All its state follows from that MatchResources."""

    def __init__(self, criteria: MatchResources) -> None:
        self.criteria = criteria
        # Empty resourceRules match everything.
        self._all_resources = not criteria.resource_rules
        self._include = _RuleList(criteria.resource_rules, criteria.match_policy)
        self._exclude = _RuleList(criteria.exclude_resource_rules, criteria.match_policy)
        selectors = (criteria.namespace_selector, criteria.object_selector)
        self._has_nil_selector = None in selectors
        self._has_selectors = any(selector.requirements for selector in selectors if selector is not None)
        self._has_object_selector = bool(criteria.object_selector and criteria.object_selector.requirements)
        # Only a binding may lack rules; it then matches everything that its policy matches.
        self.is_trivial = not (self._has_nil_selector or self._has_selectors or criteria.resource_rules or self._exclude.rules)

    def is_candidate(self, target: Target) -> bool:
        """Whether a request with this target can match at all. A nil selector is an error for every request."""
        if self._has_nil_selector:
            return True
        excluded, _ = self._exclude.possible(target)
        if any(not rule.resource_names for rule in excluded):
            return False
        if self._all_resources:
            return True
        included, also = self._include.possible(target)
        return bool(included) or also

    def may_convert(self, target: Target) -> bool:
        """Whether a request with this target may match as an equivalent resource, so that the policy sees a converted object."""
        included, also = self._include.possible(target)
        return also and all(rule.resource_names for rule in included)

    @property
    def has_resource_names(self) -> bool:
        """Whether some rule matches only objects of certain names."""
        return any(rule.resource_names for rules in (self._include, self._exclude) for rule in rules.rules)

    @property
    def object_label_keys(self) -> frozenset[str]:
        """The labels of objects that this matcher reads."""
        selector = self.criteria.object_selector
        return frozenset(requirement.key for requirement in selector.requirements) if selector else frozenset()

    def match(self, request: AdmissionRequest, target: Target, world: World) -> Match:
        """Whether a request matches. `target` must be Target.of(request)."""
        if self._has_nil_selector:
            nil = self._nil_selector()
            return Match(False, nil, error=nil)
        excluded = self._exclude.ask(request, target, world) if self._exclude.rules else _MISS
        if excluded.hit is True:
            return Match(False, f"excludeResourceRules: {target} is excluded", grade=excluded.grade)
        included = _HIT if self._all_resources else self._include.ask(request, target, world)
        if included.hit is False:
            return Match(False, self._why_no_rule(target), grade=included.grade)
        selected = self._select(request, world) if self._has_selectors else _SELECTED
        if selected.matched is False:
            return selected
        for hit, what in ((excluded, "excludeResourceRules"), (included, "resourceRules")):
            if isinstance(hit.hit, Unknown):
                return Match(hit.hit, f"{what}: {hit.hit.reason}")
        if isinstance(selected.matched, Unknown):
            return selected
        grade = worst(excluded.grade, included.grade, selected.grade)
        if included.equivalent is None:
            return Match(True, "", request.resource, request.kind, Conversion.NONE, grade)
        other = included.equivalent
        if other.conversion is Conversion.OPAQUE:
            grade = Grade.PARTIAL
        return Match(True, "", other.resource, Known(other.kind, "equivalent resource"), other.conversion, grade)

    def _select(self, request: AdmissionRequest, world: World) -> Match:
        criteria = self.criteria
        assert criteria.namespace_selector is not None
        assert criteria.object_selector is not None
        error = why = None
        namespace = NOTHING_READ
        if criteria.namespace_selector.requirements:
            try:
                why, namespace = namespace_selected(criteria.namespace_selector, request, world)
            except NamespaceMissingError as exception:
                error = str(exception)
        if why is not None:
            return Match(False, why, grade=_grade_of((namespace,)))
        objects: tuple[Evidence[Object | None], ...] = ()
        if criteria.object_selector.requirements:
            is_selected, objects = object_selected(criteria.object_selector, request)
            no_object = missing(objects)
            if not is_selected and no_object is None:
                text = f"objectSelector: {criteria.object_selector} selects neither object nor oldObject"
                return Match(False, text, grade=_grade_of(objects))
            if no_object is not None and isinstance(namespace, Known):
                return Match(no_object, f"objectSelector: labels: {no_object.reason}")
        if isinstance(namespace, Unknown):
            return Match(namespace, f"namespaceSelector: labels of namespace {request.namespace!r}: {namespace.reason}")
        if error is not None:
            return Match(False, error, error=error)
        grade = worst(namespace.grade, _grade_of(objects))
        return _SELECTED if grade is Grade.EXACT else Match(True, grade=grade)

    def _nil_selector(self) -> str:
        for name, selector in (("namespace", self.criteria.namespace_selector), ("object", self.criteria.object_selector)):
            if selector is None:
                return f"a nil {name} selector was passed, please ensure selectors are initialized properly"
        return ""

    def _why_no_rule(self, target: Target) -> str:
        rules = self.criteria.resource_rules
        if len(rules) > 1:
            return f"resourceRules: none of {len(rules)} rules matches {target}"
        mismatch = rules[0].mismatch(target) or f"resourceNames: the name is not in {list(rules[0].resource_names)}"
        return f"resourceRules[0].{mismatch}"


def match(criteria: MatchResources, request: AdmissionRequest, world: World) -> Match:
    """Whether one request matches; resources that the server exempts from all policies never match."""
    if is_excluded(request.resource):
        return Match(False, f"{request.resource.resource} of {request.resource.group} are never matched by policies")
    return Matcher(criteria).match(request, Target.of(request), world)


def _grade_of(objects: Iterable[Evidence[object]]) -> Grade:
    return worst(*(piece.grade for piece in objects if isinstance(piece, Known)))
