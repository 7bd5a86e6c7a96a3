"""A recorded object with the changes of other mutations."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeline.request import Known
from pipeline.stages.chain.onto import count_generation, onto

_names = st.sampled_from(["a", "b", "c"])
_scalars = st.one_of(st.none(), st.booleans(), st.integers(0, 3), _names)
_values = st.recursive(
    _scalars, lambda inner: st.one_of(st.dictionaries(_names, inner), st.lists(inner, max_size=3)), max_leaves=12
)
_objects = st.dictionaries(_names, _values)


@given(_objects, _objects)
def test_over_what_was_recorded_without_more_it_is_the_changed_object(before: Any, after: Any) -> None:
    assert onto(before, after, before) == after


@given(_objects, _objects)
def test_no_change_leaves_what_was_recorded(before: Any, recorded: Any) -> None:
    assert onto(before, before, recorded) == recorded


@given(_objects, _objects, _objects)
def test_it_changes_none_of_its_arguments(before: Any, after: Any, recorded: Any) -> None:
    texts = [repr(each) for each in (before, after, recorded)]
    onto(before, after, recorded)
    assert [repr(each) for each in (before, after, recorded)] == texts


def test_entries_are_paired_by_their_names() -> None:
    before = {"containers": [{"name": "main"}]}
    after = {"containers": [{"name": "main", "image": "b"}, {"name": "proxy"}]}
    recorded = {"containers": [{"name": "main", "mounts": ["token"]}, {"name": "other"}]}
    merged = [{"name": "main", "mounts": ["token"], "image": "b"}, {"name": "other"}, {"name": "proxy"}]
    assert onto(before, after, recorded) == {"containers": merged}


def test_what_a_plugin_adds_to_a_new_list_stays() -> None:
    assert onto({}, {"finalizers": ["own"]}, {"finalizers": ["protection"]}) == {"finalizers": ["protection", "own"]}


def test_an_update_counts_where_it_changes_the_spec() -> None:
    old = Known({"metadata": {"generation": 4}, "spec": {"a": 1}}, "the log")
    for spec, generation in (({"a": 1}, 4), ({"a": 2}, 5)):
        value: dict[str, Any] = {"kind": "StatefulSet", "metadata": {"generation": 4}, "spec": spec}
        count_generation(value, old)
        assert value["metadata"]["generation"] == generation
