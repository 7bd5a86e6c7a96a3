"""The Containerfile: its base has a digest, its steps work in a scratch folder, and it fits the StatefulSet.

No base image can be pulled here. The test takes the COPY and RUN steps as they stand, with other folders. Packages that Hindcast
needs come from the environment of the tests, which the same constraints.txt decides.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from .container import Instruction, instructions
from .rendering import ROOT, by_name, chart

FILE = ROOT / "deploy" / "Containerfile"
STEPS = instructions(FILE)
DIGEST = "sha256:" + "0123456789abcdef" * 4


def stages() -> list[list[Instruction]]:
    """The instructions of each stage, without the arguments before the first one."""
    starts = [index for index, step in enumerate(STEPS) if step.word == "FROM"]
    return [STEPS[start:end] for start, end in zip(starts, [*starts[1:], len(STEPS)], strict=True)]


def test_every_stage_begins_with_the_given_base() -> None:
    assert [step.text.split()[0] for step in STEPS if step.word == "FROM"] == ["${BASE}", "${BASE}"]
    # No default: a digest has to be looked up by whoever builds.
    assert [step.text for step in STEPS if step.word == "ARG"] == ["BASE", "BASE"]
    assert STEPS[0] == Instruction("ARG", "BASE")


@pytest.mark.parametrize(
    ("base", "code"),
    [
        (f"docker.io/library/python:3.13-slim@{DIGEST}", 0),
        (f"docker.io/library/python@{DIGEST}", 0),
        ("docker.io/library/python:3.13-slim", 1),
        ("docker.io/library/python@sha256:1234", 1),
        (f"docker.io/library/python@{DIGEST}0", 1),
        ("", 1),
    ],
)
def test_the_build_refuses_a_base_without_a_digest(base: str, code: int) -> None:
    (guard,) = [step.text for step in stages()[0][:3] if step.word == "RUN"]
    done = subprocess.run(
        ["sh", "-c", guard], env={"BASE": base, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert ("wanted NAME@sha256:DIGEST" in done.stderr) == bool(code)


def test_the_image_fits_the_pod(tmp_path: Path) -> None:
    last = {step.word: step.text for step in stages()[-1]}
    pod = by_name(chart(tmp_path, {}))["StatefulSet", "hindcast"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    context = pod["securityContext"]
    assert last["USER"] == f"{context['runAsUser']}:{context['runAsGroup']}"
    assert last["EXPOSE"].split() == [str(port["containerPort"]) for port in container["ports"]]
    assert "command" not in container
    assert json.loads(last["ENTRYPOINT"]) == ["/opt/hindcast/bin/hindcast"]
    assert [step.text for step in stages()[-1] if step.word == "RUN"] == []


def test_the_steps_of_the_image_install_a_program_that_starts(tmp_path: Path) -> None:
    places = {"/src": str(tmp_path / "src"), "/opt/hindcast": str(tmp_path / "opt" / "hindcast")}
    build = [step for step in stages()[0] if step.word in ("COPY", "RUN")][1:]
    assert [step.word for step in build] == ["COPY"] * 6 + ["RUN"]
    for step in build[:-1]:
        *given, target = step.text.split()
        folder = tmp_path / target.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        for name in given:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, folder)
    command = re.sub("|".join(places), lambda match: places[match[0]], build[-1].text)
    # `python3` is the Python whose packages these are.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    packages = {"PYTHONPATH": sysconfig.get_path("purelib"), "HOME": str(tmp_path), "PATH": path}
    pip = {
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_CONFIG_FILE": os.devnull,
    }
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, env={**packages, **pip}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # The image forbids to write bytecode later.
    assert [*(tmp_path / "opt").glob("hindcast/lib/python*/site-packages/api/__pycache__/cli.*.pyc")]
    (entry,) = [json.loads(step.text) for step in STEPS if step.word == "ENTRYPOINT"]
    program = entry[0].replace("/opt/hindcast", places["/opt/hindcast"])
    # `demo` reads the bundled log and the snapshot, which the wheel has to hold.
    done = subprocess.run(
        [program, "-q", "demo", "--lake-only", "--out", "demo-out"],
        cwd=tmp_path,
        env=packages,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo-out" / "lake" / "manifest.sqlite").exists()
