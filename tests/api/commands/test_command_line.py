"""The command line as somebody types it: help, misspelled words, a reader that leaves, SQL, and the beginning of an audit ID."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from api.cli import _loaded, run
from api.command_help import _OLD_OPTIONS, COMMANDS, GROUPS
from api.printing.pipe import has_reader, patient
from api.stages import OF_STAGES
from tests.yaml_text import load_yaml

DEMO = Path(__file__).parents[3] / "api" / "demo"
SERVICES = DEMO / "policies" / "deny-external-ips.yaml"
FORMATS = ("table", "wide", "json", "yaml", "markdown", "csv")


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def options_of(name: str) -> list[Any]:
    return [each for each in _loaded(name).params if each.param_type_name == "option"]


def test_help_has_every_command_in_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = shown(capsys, "-h")
    assert code == 0
    assert list(GROUPS) == ["Start", "Decide", "Roles and webhooks", "Evidence", "Operate"]
    titles = [line[:-1] for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert [title for title in titles if title != "Options"] == list(GROUPS)
    assert [line.split()[0] for line in out[out.index("Start:") :].splitlines() if line.startswith("  ")] == list(COMMANDS)
    modules = {path.stem.replace("_", "-") for path in (DEMO.parent / "commands").glob("*.py")}
    assert modules | set(OF_STAGES) >= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_short_option_for_help_works_everywhere(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = shown(capsys, name, "-h")
    assert (code, shown(capsys, name, "--help")[1]) == (0, out)
    assert max(map(len, out.splitlines())) <= 80
    for option in options_of(name):
        assert option.opts[-1] in out
    if len(options_of(name)) > 15:
        assert sum(line.endswith(":") and not line.startswith(" ") for line in out.splitlines()) >= 3
        assert out.count("\nOptions:") <= 1


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("readines", "No such command: readines. Did you mean readiness?"),
        ("vilations", "Did you mean violations?"),
        ("least-priviledge", "Did you mean least-privilege?"),
        ("web-hooks", "Did you mean webhooks?"),
        ("frobnicate", "No such command: frobnicate\n"),
        ("--laek x violations", "Did you mean --lake?"),
        ("gate --agianst x", "Did you mean --against?"),
        ("replay --agianst-log x", "Did you mean --against-log?"),
        ("gate --no-calibarte", "Did you mean --no-calibrate?"),
        ("readiness --agianst x", "--against is an option of: hindcast gate, hindcast replay, hindcast schema"),
        ("readiness --against x", "--against is an option of: hindcast gate, hindcast replay, hindcast schema"),
        ("serve --query-prot 1", "Did you mean --query-port?"),
        ("violations --frobnicate", "No such option: --frobnicate\n"),
    ],
)
def test_a_misspelled_word_gets_the_right_suggestion(words: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, complaint = shown(capsys, *words.split())
    assert code == 2
    assert meant in complaint


def test_options_of_one_meaning_have_one_name() -> None:
    by_help: dict[str, set[str]] = {}
    kinds: dict[str, set[bool]] = {}
    for name in COMMANDS:
        for option in options_of(name):
            long = [word for word in option.opts if word.startswith("--")]
            assert len(long) == 1, (name, long)
            by_help.setdefault(option.help, set()).add(long[0])
            kinds.setdefault(long[0], set()).add(bool(option.is_flag))
    assert {text: names for text, names in by_help.items() if len(names) > 1} == {}
    assert [name for name, found in kinds.items() if len(found) > 1] == []


@pytest.mark.parametrize(("name", "old", "now"), [(name, *pair) for name, table in _OLD_OPTIONS.items() for pair in table.items()])
def test_an_earlier_name_of_an_option_works_and_is_not_shown(
    name: str, old: str, now: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = name or "gate"
    found = {}
    for word in (old, now):
        option = next(each for each in options_of(command) if now in each.opts)
        arguments = [word] if option.is_flag else [f"{word}=7"]
        context = _loaded(command).make_context(command, [*arguments, "word"], resilient_parsing=True)
        found[word] = str(context.params[option.name])
    assert found[old] == found[now]
    assert found[old] not in ("None", "False")
    assert f" {old} " not in shown(capsys, command, "--help")[1]


def test_a_configuration_may_have_earlier_names(
    demo_lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hindcast.toml").write_text(f'lake = "{demo_lake}"\nexpires = 7\n[gate]\nmax-denied-units = "many"\n')
    monkeypatch.setenv("HINDCAST_CONFIG", str(tmp_path / "hindcast.toml"))
    assert "hindcast.toml:2: --review-by is 7" in shown(capsys, "exemptions", "-f", str(SERVICES))[2]
    assert "hindcast.toml:4: --max-denied-workloads is 'many'" in shown(capsys, "gate", "-f", str(SERVICES))[2]


READING = {
    "runs": FORMATS,
    "sql FROM-evidence": FORMATS,
    "violations": ("table",),
    "least-privilege --subject dana": ("yaml",),
    "replay --plan -f POLICY": ("json",),
}


@pytest.mark.parametrize("words", READING)
def test_a_reader_that_leaves_changes_neither_the_end_nor_the_rest(
    words: str, demo_lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [part.replace("POLICY", str(SERVICES)).replace("FROM-", "FROM ") for part in words.split()]
    for form in READING[words]:
        asked = ["--lake", str(demo_lake), *arguments, "-o", form]
        usual = run(asked)
        complaint = capsys.readouterr().err
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "w") as pipe, patient(pipe) as stream, monkeypatch.context() as replaced:
            replaced.setattr(sys, "stdout", stream)
            assert (run(asked), usual) == (usual, 0), form
            stream.flush()
        assert capsys.readouterr().err == complaint


@pytest.mark.parametrize("words", ["--help", "violations -o json", "frobnicate"])
def test_head_ends_a_process_quietly(words: str, demo_lake: Path) -> None:
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", "from api.cli import main; main()", "--lake", str(demo_lake)]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        both = pipe if words == "frobnicate" else subprocess.PIPE
        done = subprocess.run([*command, *words.split()], stdout=pipe, stderr=both, check=False)
    assert (done.returncode, done.stderr or b"") == (2 if words == "frobnicate" else 0, b"")


def test_a_closed_output_changes_no_exit_code(demo_lake: Path) -> None:
    command = f"exec {sys.executable} -c 'from api.cli import main; main()' --lake {demo_lake} runs >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_pipe_tells_whether_it_is_read() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as pipe:
        assert has_reader(pipe)
        os.close(reading)
        assert not has_reader(pipe)
    assert has_reader(io.StringIO())


COUNT = """
    SELECT verb, count(*) AS n, sum(1.5) AS half, max(ts) AS last, list(DISTINCT level) AS levels
    FROM requests GROUP BY 1 ORDER BY 1"""


@pytest.mark.parametrize("form", FORMATS)
def test_sql_answers_in_every_format(form: str, demo_lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = shown(capsys, "--lake", str(demo_lake), "sql", COUNT, "-o", form)
    assert code == 0
    if form in ("json", "yaml"):
        rows = (json.loads(out) if form == "json" else load_yaml(out))["rows"]
        assert sum(row["n"] for row in rows) > 16_000
        assert all(row["half"] == row["n"] * 1.5 for row in rows)
    elif form == "csv":
        rows = list(csv.DictReader(io.StringIO(out)))
        assert sum(int(row["n"]) for row in rows) > 16_000
    assert "create" in out


def test_sql_without_a_question_lists_the_views(demo_lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, "--lake", str(demo_lake), "sql", "-o", "json")[1]
    assert {"requests", "violations", "denials"} <= {row["view"] for row in json.loads(out)["views"]}
    _, out, _ = shown(capsys, "--lake", str(demo_lake), "sql", "FROM requests", "--limit", "2")
    assert "there are more rows: --limit 0 shows all" in out


@pytest.mark.parametrize(
    "text",
    [
        "FROM read_text('/etc/hostname')",
        "FROM '/etc/hostname'",
        "FROM glob('/etc/*')",
        "FROM read_csv('https://registry.example/x.csv')",
        "COPY (SELECT 1) TO 'LAKE/out.csv'",
        "COPY (SELECT 1) TO '/elsewhere.csv'",
        "SELECT 1; COPY (SELECT 1) TO 'LAKE/out.csv'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO 'LAKE/out.csv'",
        "FROM query('COPY (SELECT 1) TO ''LAKE/out.csv''')",
        "ATTACH 'LAKE/other.db'",
        "EXPORT DATABASE 'LAKE/out'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "CREATE TABLE mine (x INTEGER)",
        "DROP VIEW requests",
        "PRAGMA database_list",
        "CALL pragma_version()",
        "FROM reader",
        "SELEC 1",
        "",
        "   ",
        "SELECT CAST('a' AS INTEGER)",
        "SELECT 1 AS a, 2 AS a",
    ],
)
def test_sql_reads_the_lake_alone_and_changes_nothing(text: str, demo_lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reader = object()  # DuckDB looks for a table of that name among the variables of Python
    before = sorted(demo_lake.rglob("*"))
    code, out, complaint = shown(capsys, "--lake", str(demo_lake), "sql", text.replace("LAKE", str(demo_lake)) or ";")
    assert (code, out) == (2, "")
    assert complaint.startswith("hindcast: ")
    assert sorted(demo_lake.rglob("*")) == before
    assert reader


def test_a_request_is_named_by_the_beginning_of_its_audit_id(demo_lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--lake", str(demo_lake)]
    question = "SELECT audit_id FROM admission_writes WHERE resource = 'services' AND verb = 'create' ORDER BY 1"
    (*_, audit_id) = [row["audit_id"] for row in json.loads(shown(capsys, *asked, "sql", question, "-o", "json")[1])["rows"]]
    given = ["explain", "-f", str(SERVICES), "-o", "json"]
    whole = shown(capsys, *asked, *given, audit_id)
    assert whole[0] == 0
    assert shown(capsys, *asked, *given, audit_id[:12]) == whole
    every = """
        SELECT left(audit_id, 4) AS a, list(DISTINCT audit_id ORDER BY audit_id) AS ids
        FROM events GROUP BY 1 ORDER BY len(ids) DESC, 1"""
    several = json.loads(shown(capsys, *asked, "sql", every, "-o", "json")[1])["rows"][0]
    code, _, complaint = shown(capsys, *asked, *given, several["a"])
    assert code == 2
    assert all(each in complaint for each in several["ids"][:5])
    assert f"{len(several['ids']):,} audit IDs begin with {several['a']}" in complaint
    assert shown(capsys, *asked, *given, audit_id[:3])[0] == 2
    assert "the lake has no request with audit ID 'zzzz'" in shown(capsys, *asked, *given, "zzzz")[2]
