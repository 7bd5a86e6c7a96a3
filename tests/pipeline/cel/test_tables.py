"""The parser that is read from a user's cache is the parser that was made."""

from __future__ import annotations

import stat
from pathlib import Path

import lark
import pytest

from pipeline.cel.syntax.builder import Builder
from pipeline.cel.syntax.grammar import build_parser
from pipeline.cel.syntax.parse import MACROS

TEXTS = (
    "object.spec.replicas <= 5 && !has(object.metadata.labels)",
    "object.spec.containers.all(c, c.image.startsWith('registry/') || c.?name.orValue('x') in ['a', 'b',])",
    '{\'a\': 1u, 2: -3.5e4,}[true ? b\'x\' : r"""y"""]',
    "object.spec. <= 5",
    "a b",
    "1 +",
    "'not closed",
)


def outcome(parser: lark.Lark, builder: Builder, text: str) -> str:
    builder.begin(MACROS, True)
    try:
        return repr(parser.parse(text))
    except lark.exceptions.UnexpectedInput as problem:
        return f"{type(problem).__name__} at {problem.line}:{problem.column}"


def outcomes() -> list[str]:
    builder = Builder()
    parser = build_parser(builder)
    return [outcome(parser, builder, text) for text in TEXTS]


def test_parsers_of_one_user_read_the_tables_of_the_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = outcomes()
    (kept,) = (tmp_path / "hindcast").iterdir()
    whole = kept.read_bytes()
    assert outcomes() == made
    assert kept.read_bytes() == whole
    for damaged in (whole[: len(whole) // 2], whole[:-1] + bytes([whole[-1] ^ 1]), b"", b"\xff\n"):
        kept.write_bytes(damaged)
        assert outcomes() == made
        assert len(kept.read_bytes()) > len(whole) // 2, "a damaged file is made again"
        assert outcomes() == made


def test_a_folder_that_others_may_write_keeps_no_tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "hindcast"
    folder.mkdir()
    folder.chmod(stat.S_IRWXU | stat.S_IWOTH)
    assert outcomes()
    assert not list(folder.iterdir())


def test_without_a_cache_the_parser_is_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert outcomes()
