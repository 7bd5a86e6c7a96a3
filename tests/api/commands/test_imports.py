"""A command loads what it needs when it needs it: help loads no engine, and prints at once."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from api.command_help import COMMANDS

# Each takes a tenth of a second and more to load.
_HEAVY = (
    "cryptography",
    "duckdb",
    "jinja2",
    "lark",
    "polars",
    "pyarrow",
    "uvicorn",
    "pipeline.stages.registry",
    "pipeline.requests",
)
_LOADED = """
import contextlib, io, json, sys
from api.cli import run
with contextlib.redirect_stdout(io.StringIO()):
    code = run([*sys.argv[1:], "--help"])
print(json.dumps([code, sorted(sys.modules)]))
"""
# The forms of files are asked for their names, and read Parquet.
_MAY = {"ingest": {"pyarrow"}}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_loads_no_engine(command: str) -> None:
    done = subprocess.run([sys.executable, "-c", _LOADED, command], check=True, capture_output=True, text=True)
    code, loaded = json.loads(done.stdout)
    assert code == 0
    assert set(_HEAVY) & set(loaded) - _MAY.get(command, set()) == set()
    assert "typer" in loaded
