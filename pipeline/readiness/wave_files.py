"""The files of a rollout: what to apply for each wave, what undoes it, and the command that checks it against new traffic."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from ..manifests.shell import command_line
from ..manifests.writing import comment, to_yaml
from ..stages.waves import Rollout, Wave

_ODD = re.compile(r"[^A-Za-z0-9._-]|^\.+")


def files_of(found: Rollout) -> Iterator[tuple[str, str]]:
    """The files of a rollout by name: `NAME-wave-N.yaml`, `NAME-back-N.yaml`, and `NAME-check-N.yaml` where a wave needs more."""
    for wave in found.waves:
        yield f"{_plain(found.name)}-wave-{wave.number}.yaml", to_yaml([*wave.manifests])
        yield f"{_plain(found.name)}-back-{wave.number}.yaml", way_back(wave)
        if found.needs:
            yield checked_name(found, wave), to_yaml([*found.checked(wave)])


def way_back(wave: Wave) -> str:
    """The manifests of before a wave, under comments with the commands that remove what it adds."""
    lines = [*wave.remarks, *(command_line([*words]) for words in wave.removals)]
    return "".join(map(comment, lines)) + (to_yaml([*wave.back]) if wave.back else "")


def checked_name(found: Rollout, wave: Wave) -> str:
    """The name of the file that a gate or a watch of a wave takes."""
    return f"{_plain(found.name)}-{'check' if found.needs else 'wave'}-{wave.number}.yaml"


def _plain(name: str) -> str:
    """A name as part of the name of a file: manifests may hold any text, and none of it leads out of the folder."""
    return _ODD.sub("_", name)


def check_command(found: Rollout, wave: Wave, folder: str, since: datetime | None) -> str:
    """The command that checks a wave against what came after the window of the rollout."""
    words = ["hindcast", "gate", "-f", f"{folder}/{checked_name(found, wave)}"]
    return command_line([*words, *(["--since", f"{since:%Y-%m-%dT%H:%M:%SZ}"] if since is not None else [])])
