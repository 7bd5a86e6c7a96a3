"""The checks of the Pod Security Standards against upstream's test Pods and the answers of a real API server 1.36.2.

`corpora/pod-security` holds upstream's 4,537 test Pods, by check, level and version. `data/pod-security-a/answers` holds what
the server said of each, and of 300 random Pods at 40 versions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
import zstandard

from pipeline.stages.pod_security.checks.pod import Pod
from pipeline.stages.pod_security.checks.table import CHECKS, Level, failed_checks
from pipeline.stages.pod_security.created import as_met

pytestmark = pytest.mark.conformance

_SERVER = 36
_NEWEST = 37  # of upstream's test Pods


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with zstandard.open(path, "rb") as stream:
        yield from map(json.loads, TextIOWrapper(stream, encoding="utf-8"))


def _minor(version: str, server: int) -> int:
    return server if version == "latest" else min(int(version.removeprefix("v1.")), server)


def _violations(pod: dict[str, Any], level: str, version: str, server: int) -> tuple[list[str], str]:
    """The ids of the checks that a new Pod fails, and the text of all."""
    met = as_met(pod, server, is_create=True)
    found = failed_checks(Pod(met["metadata"].get("annotations") or {}, met["spec"]), Level(level), _minor(version, server))
    return [each.check for each in found], ", ".join(str(each.failure) for each in found)


def test_upstreams_test_pods(shared: Path) -> None:
    """Each passes, or fails with its own check or the one that replaces it."""
    by_name = {check.id.lower(): {check.id, *(each.id for each in CHECKS if each.replaces == check.id)} for check in CHECKS}
    told: Counter[str] = Counter()
    for row in _lines(shared / "corpora" / "pod-security" / "testdata.jsonl.zst"):
        failed, text = _violations(row["pod"], row["level"], row["version"], _NEWEST)
        if row["expect"] == "pass":
            assert not failed, (row["file"], text)
        else:
            assert by_name[row["check"]].intersection(failed), (row["file"], text)
        told[row["expect"]] += 1
    assert told == {"pass": 1051, "fail": 3486}


def test_answers_to_upstreams_test_pods(shared: Path) -> None:
    """Word for word what the server said."""
    corpus = shared / "corpora" / "pod-security" / "testdata.jsonl.zst"
    pods = {row["file"]: row["pod"] for row in _lines(corpus)}
    told: Counter[int] = Counter()
    for row in _lines(shared / "data" / "pod-security-a" / "answers" / "upstream-v1.36.2.jsonl.zst"):
        told[row["status"]] += 1
        if row["status"] == 422:
            continue  # the API's own validation
        text = _violations(pods[row["file"]], row["level"], row["version"], _SERVER)[1]
        wanted = f' is forbidden: violates PodSecurity "{row["level"]}:{row["version"]}": {text}'
        assert (row["message"] or "").endswith(wanted) if text else row["status"] == 201, row["file"]
        assert bool(text) == (row["status"] == 403), row["file"]
    assert told == {201: 1049, 403: 3476, 422: 12}


def test_answers_to_random_pods(shared: Path) -> None:
    """Both levels at each version, word for word."""
    folder = shared / "data" / "pod-security-a" / "answers"
    pods = list(_lines(folder / "matrix_pods.jsonl.zst"))
    compared = 0
    for row in _lines(folder / "matrix-v1.36.2.jsonl.zst"):
        for level in ("restricted", "baseline"):
            text = _violations(pods[row["pod"]], level, row["version"], _SERVER)[1]
            said = f'would violate PodSecurity "{level}:{row["version"]}": {text}' if text else None
            assert row[level] == said, (row["pod"], row["version"])
            compared += 1
    assert compared == 24_000
