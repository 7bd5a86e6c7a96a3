"""A label stands for the names of namespaces only where it selects just these."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pipeline.readiness.wave_files import checked_name, files_of
from pipeline.stages.waves import CLEAN, Rollout, Tried, Wave, label_of
from tests.recording import START

_LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=3)
_SPACES = st.dictionaries(st.sampled_from([f"n{number}" for number in range(6)]), st.none() | _LABELS, max_size=6)


@given(_SPACES, st.sets(st.sampled_from([f"n{number}" for number in range(6)]), min_size=1).map(sorted))
def test_a_label_selects_exactly_the_chosen(labels: dict[str, dict[str, str] | None], chosen: list[str]) -> None:
    found = label_of(chosen, labels)
    if found is None:
        return
    key, values = found
    assert None not in labels.values()
    assert {name for name, own in labels.items() if (own or {}).get(key) in values} == set(chosen)
    assert len(values) < len(chosen)


def test_the_label_with_the_fewest_values_is_taken() -> None:
    labels = {
        "a": {"env": "dev", "team": "1"},
        "b": {"env": "dev", "team": "2"},
        "c": {"env": "test", "team": "3"},
        "d": {"env": "prod"},
    }
    assert label_of(["a", "b"], labels) == ("env", ("dev",))
    assert label_of(["a", "b", "c"], labels) == ("env", ("dev", "test"))
    assert label_of(["a"], labels) is None  # a name is as short
    assert label_of(["a", "b"], {**labels, "e": None}) is None
    assert label_of(["a", "b", "e"], labels) is None
    assert label_of(["a", "b"], {**labels, "e": {"env": "dev"}}) is None


@given(st.text(max_size=30))
def test_no_name_leads_out_of_the_folder(name: str) -> None:
    wave = Wave(1, CLEAN, ("shop",), 1, (), ({"kind": "Namespace"},))
    rollout = Rollout(name, None, (wave,), Tried(0, 0, START), ({"kind": "Policy"},))
    files = [file for file, _ in files_of(rollout)]
    assert len(files) == len(set(files)) == 3
    assert all(Path(file).name == file and not file.startswith(".") for file in files)
    assert checked_name(rollout, wave) in files
