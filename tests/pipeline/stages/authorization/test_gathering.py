"""Which rules a ClusterRole gathers: as a controller that looks at every role, but without looking at every role."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from pipeline.authorization.documents import ClusterRole
from pipeline.authorization.rbac import Rule
from pipeline.cel.library.authorizer import Attributes
from pipeline.matching.selectors import LabelSelector, Requirement
from pipeline.stages.authorization.gathering import Members, RuleIndex, gathering_of

VALUES = st.sampled_from(["a", "b"])
REQUIREMENTS = st.one_of(
    st.builds(Requirement, VALUES, st.sampled_from(["In", "NotIn"]), st.frozensets(VALUES, min_size=1)),
    st.builds(Requirement, VALUES, st.sampled_from(["Exists", "DoesNotExist"])),
)
SELECTORS = st.builds(LabelSelector, st.lists(REQUIREMENTS, max_size=2).map(tuple))
RESOURCES = st.sampled_from(["*", "pods", "pods/log", "*/log", "jobs"])
RULES = st.builds(Rule, st.just(("get",)), st.just(("",)), st.lists(RESOURCES, max_size=2).map(tuple))


@st.composite
def roles(draw: st.DrawFn) -> list[ClusterRole]:
    found = []
    for name in "qrstuv"[: draw(st.integers(1, 6))]:
        selectors = draw(st.none() | st.lists(SELECTORS, max_size=2).map(tuple))
        labels = draw(st.dictionaries(VALUES, VALUES, max_size=2))
        found.append(ClusterRole(name, labels, selectors, tuple(draw(st.lists(RULES, max_size=2)))))
    return found


def gathered(role: ClusterRole, every: Sequence[ClusterRole], visited: frozenset[str]) -> Iterator[Rule]:
    """Every rule, by the text of the controller: through every path, with repetitions."""
    for selector in role.selectors or ():
        for member in sorted(every, key=lambda each: each.name):
            if member.name not in visited and selector.selects(member.labels):
                if member.selectors is None:
                    yield from member.rules
                else:
                    yield from gathered(member, every, visited | {member.name})


@given(roles())
def test_a_role_gathers_what_every_path_gives(every: list[ClusterRole]) -> None:
    members = Members(every)
    for role in every:
        assert members.gathered(role) == tuple(dict.fromkeys(gathered(role, every, frozenset([role.name]))))


@given(roles(), roles())
def test_the_roles_that_gather_a_changed_one_are_found(changed: list[ClusterRole], others: list[ClusterRole]) -> None:
    reached, wanted = list(changed), set[str]()
    while more := [each for each in others if each.name not in wanted and any(each.gathers(role.labels) for role in reached)]:
        wanted |= {each.name for each in more}
        reached = more
    assert {role.name for role in gathering_of(changed, others)} == wanted


@given(st.lists(RULES), RESOURCES, st.sampled_from(["", "log"]))
def test_an_index_of_rules_allows_what_some_rule_allows(rules: list[Rule], resource: str, subresource: str) -> None:
    asked = Attributes("get", "", "", resource, subresource)
    assert RuleIndex(rules).allows(asked) is any(rule.allows(asked) for rule in rules)


class Counting(LabelSelector):
    """A selector that counts the roles at which it looks."""

    __slots__ = ()
    looks = 0

    def selects(self, labels: Mapping[str, str]) -> bool:
        Counting.looks += 1
        return super().selects(labels)


def test_a_selector_looks_at_the_roles_with_its_labels_only() -> None:
    """4,000 roles that gather one each took 71 s, because each looked at all others."""
    count = 4000
    selectors = [Counting((Requirement("of", "In", frozenset([str(number)])),)) for number in range(count)]
    every = [ClusterRole(f"r{number}", {"of": str(number + 1)}, (selectors[number],), ()) for number in range(count)]
    members = Members(every)
    assert [next(members.selected(selector)).name for selector in selectors[1:]] == [f"r{number}" for number in range(count - 1)]
    assert Counting.looks <= count
