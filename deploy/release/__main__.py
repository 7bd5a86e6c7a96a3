"""The files of a release, from one version: `python deploy/release --dist dist --url URL --out dist/release`.

URL is where the files will lie. The version is that of the wheel, and each digest is of the file as it was built. Nothing here
publishes anything: .github/workflows/release.yml does that.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import re
import tarfile
from pathlib import Path
from string import Template

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_WHEEL = re.compile(r"kube_hindcast-(\d+\.\d+\.\d+(?:[a-z]+\d+)?)-py3-none-any\.whl")
# What the image of the checkout copies and installs, and what that of a release does.
_COPIES = re.compile(r"(?:^COPY (?!--from).*\n)+", re.MULTILINE)
_PLUGIN = "kubectl-hindcast"


def main() -> None:
    """Write the manifest of krew, its archive, the formula of Homebrew and the Containerfile."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=Path, required=True, help="the folder with the wheel, as `make dist` builds it")
    parser.add_argument("--url", required=True, help="where the files of the release will lie")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write to")
    given = parser.parse_args()
    wheels = [(path, match[1]) for path in given.dist.iterdir() if (match := _WHEEL.fullmatch(path.name))]
    if len(wheels) != 1:
        parser.error(f"--dist: {given.dist} has {len(wheels)} wheels of Hindcast; wanted one, as after `make dist`")
    ((wheel, version),) = wheels
    given.out.mkdir(parents=True, exist_ok=True)
    plugin = given.out / f"{_PLUGIN}-{version}.tar.gz"
    plugin.write_bytes(_archive(_filled("kubectl-hindcast", {"version": version})))
    constraints = given.out / "constraints.txt"
    constraints.write_bytes((_ROOT / "constraints.txt").read_bytes())
    values = {
        "version": version,
        "url": given.url.rstrip("/"),
        "wheel": wheel.name,
        "wheel_sha256": _digest(wheel),
        "plugin": plugin.name,
        "plugin_sha256": _digest(plugin),
        "constraints_sha256": _digest(constraints),
    }
    for name in ("hindcast.krew.yaml", "kube-hindcast.rb"):
        (given.out / name).write_text(_filled(name, values))
    (given.out / "Containerfile").write_text(_containerfile(wheel.name, version))


def _filled(name: str, values: dict[str, str]) -> str:
    return _Template((_HERE / name).read_text()).substitute(values)


class _Template(Template):
    """The templates are shell, Ruby and YAML, which use the dollar sign themselves."""

    delimiter = "@@"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _archive(script: str) -> bytes:
    """The plugin and the licence, byte for byte the same each time."""
    target = io.BytesIO()
    with gzip.GzipFile(fileobj=target, mode="wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data, mode in ((_PLUGIN, script.encode(), 0o755), ("LICENSE", (_ROOT / "LICENSE").read_bytes(), 0o644)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            archive.addfile(entry, io.BytesIO(data))
    return target.getvalue()


def _containerfile(wheel: str, version: str) -> str:
    """The image of the checkout, with the wheel in place of the source."""
    text = (_ROOT / "deploy" / "Containerfile").read_text()
    text, copies = _COPIES.subn(f"COPY {wheel} constraints.txt /src/\n", text)
    text, installs = re.subn(r"(--disable-pip-version-check) /src$", rf"\1 /src/{wheel}", text, flags=re.MULTILINE)
    text, users = re.subn(r"^USER ", f'LABEL org.opencontainers.image.version="{version}"\nUSER ', text, flags=re.MULTILINE)
    text = text.replace("Build it from the root of the checkout:", "Build it next to the wheel and constraints.txt:")
    text = text.replace("-f deploy/Containerfile ", "")
    if (copies, installs, users) != (1, 1, 1):
        raise SystemExit("deploy/Containerfile has another shape than this program expects")
    return text


if __name__ == "__main__":
    main()
