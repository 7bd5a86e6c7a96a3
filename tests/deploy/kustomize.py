"""`python -m tests.deploy.kustomize`: writes the resources of deploy/kustomize from the chart, the only source."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from .rendering import KUSTOMIZE, chart_text, sources

# What an overlay sets: the image by the transformer `images`, and the issuer by a patch.
PLACEHOLDER = {"repository": "hindcast", "tag": "unset"}
VALUES = {
    "image": PLACEHOLDER,
    "monitoring": {"enabled": True, "dashboard": True},
    "tls": {"certManager": {"enabled": True, "issuer": {"name": "unset"}}},
}
FOLDERS = {"certificate.yaml": "components/cert-manager", "monitoring.yaml": "components/monitoring"}
# Labels that say that helm made an object.
RELEASE_LABELS = re.compile(r"^ +(?:app\.kubernetes\.io/managed-by|helm\.sh/chart): .*\n", re.MULTILINE)
_HEAD = "# Made from the chart by `make kustomize`: edit deploy/chart instead.\n"


def resources(home: Path) -> dict[Path, str]:
    """The files that the chart decides, with their texts."""
    rendered = sources(chart_text(home, VALUES))
    return {KUSTOMIZE / FOLDERS.get(name, "base") / name: _HEAD + RELEASE_LABELS.sub("", text) for name, text in rendered.items()}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for path, text in resources(Path(folder)).items():
            path.write_text(text, encoding="utf-8")
            print(path)
