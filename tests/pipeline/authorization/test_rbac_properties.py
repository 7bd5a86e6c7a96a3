"""What must hold of RBAC whatever the roles and bindings are."""

from __future__ import annotations

from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from pipeline.authorization import Binding, Bindings, Opinion, Rule, Subject, authorize, request_info
from pipeline.authorization.rbac import Rules, Versions
from pipeline.cel.library.authorizer import Attributes
from pipeline.request import Known, Unknown, UserInfo

WORDS = st.sampled_from(["a", "b", "c"])
PLACES = st.sampled_from(["", "a", "b"])


def some(*extra: str) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(["a", "b", "c", *extra]), max_size=3)


RULES = st.builds(Rule, some("*"), some("*", ""), some("*", "a/b", "*/b", "a/*"), some(), st.just(()))
ROLES = st.lists(RULES, max_size=3).map(tuple)
# Hypothesis draws the fields of a named tuple that have a default too; a question is redacted only where a test says so.
QUESTIONS = st.tuples(WORDS, st.just(""), PLACES, WORDS, st.sampled_from(["", "b"]), PLACES, PLACES).map(
    lambda fields: Attributes(*fields)
)
USERS = st.builds(lambda name, groups: UserInfo(name, groups=tuple(groups)), WORDS, st.lists(WORDS, max_size=2))
SUBJECTS = st.builds(Subject, st.sampled_from(["User", "Group", "ServiceAccount"]), WORDS, PLACES)
BINDINGS = st.builds(
    lambda name, namespace, role, subjects: Binding(name, namespace, "ClusterRole", role, tuple(subjects)),
    WORDS,
    PLACES,
    WORDS,
    st.lists(SUBJECTS, max_size=3),
)


class Objects:
    """Roles that all bindings share, and bindings, each with its possible versions."""

    def __init__(self, roles: dict[str, Versions[Rules]], bindings: list[tuple[str, Versions[Binding]]]) -> None:
        self.roles = roles
        self.bound = bindings

    def bindings(self, namespace: str) -> Bindings:
        return Bindings([versions for place, versions in self.bound if place == namespace])

    def role(self, namespace: str, name: str) -> Versions[Rules]:
        return self.roles.get(name, (Known(None, "test"),))

    def with_role(self, name: str, *versions: Known[Rules | None] | Unknown) -> Objects:
        return Objects({**self.roles, name: versions}, self.bound)

    def with_binding(self, namespace: str, *versions: Known[Binding | None] | Unknown) -> Objects:
        return Objects(self.roles, [*self.bound, (namespace, versions)])


OBJECTS = st.builds(
    lambda roles, bindings: Objects(
        {name: (Known(rules, "test"),) for name, rules in roles.items()},
        [(binding.namespace, (Known(binding, "test"),)) for binding in bindings],
    ),
    st.dictionaries(WORDS, ROLES, max_size=3),
    st.lists(BINDINGS, max_size=4),
)


def by_the_book(objects: Objects, user: UserInfo, asked: Attributes) -> bool:
    """Whether any rule of any binding allows it, without any index."""
    for place, (version,) in objects.bound:
        assert isinstance(version, Known)
        binding = version.value
        assert binding is not None
        (rules,) = objects.role("", binding.role_name)
        is_meant = any(
            (subject.kind == "User" and subject.name == user.username)
            or (subject.kind == "Group" and subject.name in user.groups)
            or (
                subject.kind == "ServiceAccount"
                and (subject.namespace or place)
                and user.username == f"system:serviceaccount:{subject.namespace or place}:{subject.name}"
            )
            for subject in binding.subjects
        )
        allows = isinstance(rules, Known) and any(rule.allows(asked) for rule in rules.value or ())
        if place in ("", asked.namespace) and is_meant and allows:
            return True
    return False


@given(OBJECTS, USERS, QUESTIONS)
def test_the_index_finds_what_a_search_finds(objects: Objects, user: UserInfo, asked: Attributes) -> None:
    for person in (user, UserInfo(f"system:serviceaccount:a:{user.username}")):
        assert authorize(objects, person, asked).allowed == by_the_book(objects, person, asked)


@given(OBJECTS, USERS, QUESTIONS, WORDS, RULES)
def test_another_rule_takes_nothing_away(objects: Objects, user: UserInfo, asked: Attributes, role: str, rule: Rule) -> None:
    (version,) = objects.role("", role)
    assert isinstance(version, Known)
    more = objects.with_role(role, Known((*(version.value or ()), rule), "test"))
    assert authorize(more, user, asked).allowed or not authorize(objects, user, asked).allowed


@given(OBJECTS, USERS, QUESTIONS, BINDINGS)
def test_another_binding_takes_nothing_away(objects: Objects, user: UserInfo, asked: Attributes, binding: Binding) -> None:
    more = objects.with_binding(binding.namespace, Known(binding, "test"))
    assert authorize(more, user, asked).allowed or not authorize(objects, user, asked).allowed


@given(RULES, QUESTIONS)
def test_names_only_restrict(rule: Rule, asked: Attributes) -> None:
    without = rule._replace(names=frozenset())
    assert without.allows(asked) or not rule.allows(asked)
    if rule.names and not asked.name:
        assert not rule.allows(asked)


@given(RULES, QUESTIONS)
def test_a_rule_for_resources_allows_no_path(rule: Rule, asked: Attributes) -> None:
    assert not rule.allows(Attributes(asked.verb, "/healthz"))
    assert not Rule(rule.verbs, urls=("*",)).allows(asked)


def refines(better: Opinion, worse: Opinion) -> bool:
    """Whether more evidence says the same, or says something where less of it could not."""
    if worse.allowed is None:
        return True
    return better.allowed == worse.allowed and (None in worse.reasons or better.reasons <= worse.reasons)


@given(OBJECTS, USERS, QUESTIONS, PLACES, st.lists(BINDINGS, min_size=1, max_size=2), st.booleans())
def test_what_is_not_known_decides_nothing(
    objects: Objects, user: UserInfo, asked: Attributes, place: str, bindings: list[Binding], is_recorded: bool
) -> None:
    """Whatever an unknown binding turns out to be, the answer was that or unknown."""
    placed = [Binding(each.name, place, each.role_kind, each.role_name, each.subjects) for each in bindings]
    versions = tuple(Known(each, "test") for each in placed)
    uncertain = objects.with_binding(place, *versions) if is_recorded else objects.with_binding(place, Unknown("not recorded"))
    for version in versions:
        assert refines(authorize(objects.with_binding(place, version), user, asked), authorize(uncertain, user, asked))


@given(OBJECTS, USERS, QUESTIONS, WORDS, st.lists(ROLES, min_size=1, max_size=2), st.booleans())
def test_rules_that_are_not_known_decide_nothing(
    objects: Objects, user: UserInfo, asked: Attributes, role: str, roles: list[Rules], is_recorded: bool
) -> None:
    versions = tuple(Known(each, "test") for each in roles)
    uncertain = objects.with_role(role, *versions) if is_recorded else objects.with_role(role, Unknown("not recorded"))
    for version in versions:
        assert refines(authorize(objects.with_role(role, version), user, asked), authorize(uncertain, user, asked))


SEGMENTS = st.text(min_size=1, max_size=6).filter(lambda text: "/" not in text and not text.isspace())


@given(st.sampled_from(["GET", "PUT", "PATCH", "DELETE"]), SEGMENTS, SEGMENTS, SEGMENTS)
def test_names_are_read_as_they_were_written(method: str, namespace: str, name: str, subresource: str) -> None:
    path = "/".join(quote(part, safe="") for part in (namespace, "widgets", name, subresource))
    info = request_info(method, f"/apis/shop.example.com/v1/namespaces/{path}")
    assert info is not None
    found = info.attributes
    assert (found.namespace, found.resource, found.name, found.subresource) == (namespace, "widgets", name, subresource)


@given(st.sampled_from(["GET", "POST", "HEAD", "DELETE", "OPTIONS"]), st.text(max_size=40))
def test_any_url_has_an_answer(method: str, text: str) -> None:
    for uri in (text, f"/api/v1/{text}", f"/apis/apps/v1/{text}", f"/api/v1/pods?{text}", f"/api/v1/pods?fieldSelector={text}"):
        info = request_info(method, uri)
        assert info is None or info.is_resource_request or info.verb == method.lower()


@given(OBJECTS, USERS, QUESTIONS.filter(lambda asked: bool(asked.name)))
def test_a_redacted_name_decides_nothing(objects: Objects, user: UserInfo, asked: Attributes) -> None:
    """Whatever the name was, the answer was the answer to the redacted question, or that one is unknown."""
    redacted = asked._replace(name="REDACTED", is_redacted=True)
    assert refines(authorize(objects, user, asked), authorize(objects, user, redacted))
