"""Who may write as which cluster, read from a file that may be wrong or change."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.access.identities import IdentityFile, read_identities
from ingest.errors import InputError

TOKEN = "0123456789abcdef"


def test_tokens_and_names_stand_for_clusters(tmp_path: Path) -> None:
    path = tmp_path / "identities"
    path.write_text(f"# note\n\nlab-1 token:{TOKEN}\nlab-2\ttoken:{TOKEN}\n  prod name:apiserver prod\n")
    identities = IdentityFile(path)
    assert identities.clusters_of(TOKEN, None) == {"lab-1", "lab-2"}
    assert identities.clusters_of(None, "apiserver prod") == {"prod"}
    assert identities.clusters_of(TOKEN, "apiserver prod") == {"lab-1", "lab-2", "prod"}
    # A token is not a name and a name is not a token.
    assert identities.clusters_of("apiserver prod", TOKEN) == set()
    assert identities.clusters_of(None, None) == set()
    assert identities.clusters_of("", "") == set()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lab-1\n", ":1: this is not an identity"),
        (f"# x\nLAB token:{TOKEN}\n", ":2: this is not an identity"),
        (f"lab-1 password:{TOKEN}\n", ":1: this is not an identity"),
        ("lab-1 token:\n", ":1: this is not an identity"),
        ("lab-1 token:short\n", ":1: the token is shorter than 16"),
        ("# nobody\n", "holds no identity"),
    ],
)
def test_what_is_wrong_is_named_without_telling_the_token(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "identities"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_identities(path)
    assert TOKEN not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the identities cannot be read"):
        IdentityFile(tmp_path / "none")


def test_a_changed_file_is_taken_over_and_a_broken_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "identities"
    path.write_text(f"lab-1 token:{TOKEN}\n")
    identities = IdentityFile(path)
    path.write_text(f"lab-2 token:{TOKEN}-longer\n")
    identities.reload_if_changed()
    assert identities.clusters_of(TOKEN, None) == set()
    assert identities.clusters_of(TOKEN + "-longer", None) == {"lab-2"}
    path.unlink()
    identities.reload_if_changed()
    assert identities.clusters_of(TOKEN + "-longer", None) == {"lab-2"}
