"""The files of a rollout: what to apply for each wave, what undoes it, and the command that checks it against new traffic."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ..manifests.shell import command_line
from ..manifests.writing import comment, to_yaml
from ..stages.waves import Rollout, Wave


def files_of(found: Rollout) -> Iterator[tuple[str, str]]:
    """The files of a rollout by name: `NAME-wave-N.yaml`, `NAME-back-N.yaml`, and `NAME-check-N.yaml` where a wave needs more."""
    for wave in found.waves:
        yield f"{found.name}-wave-{wave.number}.yaml", to_yaml([*wave.manifests])
        yield f"{found.name}-back-{wave.number}.yaml", way_back(wave)
        if found.needs:
            yield checked_name(found, wave), to_yaml([*found.checked(wave)])


def way_back(wave: Wave) -> str:
    """The manifests of before a wave, under comments with the commands that remove what it adds."""
    lines = [*wave.remarks, *(command_line([*words]) for words in wave.removals)]
    return "".join(map(comment, lines)) + (to_yaml([*wave.back]) if wave.back else "")


def checked_name(found: Rollout, wave: Wave) -> str:
    """The name of the file that a gate or a watch of a wave takes."""
    return f"{found.name}-{'check' if found.needs else 'wave'}-{wave.number}.yaml"


def check_command(found: Rollout, wave: Wave, folder: str, since: datetime | None) -> str:
    """The command that checks a wave against what came after the window of the rollout."""
    words = ["hindcast", "gate", "-f", f"{folder}/{checked_name(found, wave)}"]
    return command_line([*words, *(["--since", f"{since:%Y-%m-%dT%H:%M:%SZ}"] if since is not None else [])])
