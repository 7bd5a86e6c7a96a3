"""Renders the chart and the kustomizations with the real programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.yaml_text import load_yaml_all

from .tools import run_program

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart"
KUSTOMIZE = ROOT / "deploy" / "kustomize"
NAMESPACE = "hindcast"
IMAGE = {"repository": "registry.example/hindcast", "digest": "sha256:" + "1" * 64}
Manifest = dict[str, Any]


def chart_text(home: Path, values: Mapping[str, Any], *, release: str = "hindcast", version: str = "1.36") -> str:
    """What `helm template` prints with these values over those of the chart."""
    file = home / "values.yaml"
    file.write_text(yaml.safe_dump({"image": IMAGE, **values}), encoding="utf-8")
    return run_program(
        "helm", "template", release, str(CHART), "-n", NAMESPACE, "-f", str(file), "--kube-version", version, home=home
    )


def chart(home: Path, values: Mapping[str, Any], **options: str) -> list[Manifest]:
    """The objects of `helm template`."""
    return objects_of(chart_text(home, values, **options))


def kustomization(home: Path, folder: Path) -> list[Manifest]:
    """The objects of `kubectl kustomize`."""
    return objects_of(run_program("kubectl", "kustomize", str(folder), home=home))


def objects_of(text: str) -> list[Manifest]:
    """The objects of a stream of YAML documents."""
    return [document for document in load_yaml_all(text) if document]


def by_name(objects: Iterable[Manifest]) -> dict[tuple[str, str], Manifest]:
    """Objects by kind and name; two of one name would be an error of the chart."""
    found: dict[tuple[str, str], Manifest] = {}
    for each in objects:
        key = (each["kind"], each["metadata"]["name"])
        assert key not in found, key
        found[key] = each
    return found


def sources(text: str) -> dict[str, str]:
    """The text of each template in what helm prints, without helm's own lines."""
    parts: dict[str, list[str]] = {}
    for part in re.split(r"^---\n", text, flags=re.MULTILINE):
        if match := re.match(r"# Source: \w+/templates/([\w-]+\.yaml)\n", part):
            parts.setdefault(match[1], []).append(part[match.end() :].strip("\n") + "\n")
    return {name: "---\n".join(documents) for name, documents in sorted(parts.items())}
