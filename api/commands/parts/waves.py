"""What the commands about rollouts share: the stages that have waves, and the files of the waves."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from api.context import Context
from ingest.errors import InputError

if TYPE_CHECKING:
    from api.given import Given, Judged
    from pipeline.stages.waves import Rollout

_NEW = "name a folder that is not there yet"


def in_waves(own: Context, given: Given) -> list[Judged]:
    """The stages among the manifests that can be enforced in waves; the others are named. Raises InputError without any."""
    from pipeline.readiness.rolling import knows_waves

    found = [(stage, rules) for stage, rules in given.stages if knows_waves(stage)]
    others = " and ".join(stage.readiness.words.things for stage, _ in given.stages if not knows_waves(stage))
    if not found:
        hint = "give policies with their bindings, Namespaces with labels of Pod Security, or --level"
        raise InputError(f"{others} cannot be enforced namespace by namespace", hint)
    if others:
        own.warn(f"{others} cannot be enforced namespace by namespace, and are left out: `hindcast readiness` judges them")
    return found


def check_folder(folder: Path) -> None:
    """Raise InputError, before the work begins, for a folder that is there already."""
    if folder.exists():
        raise InputError(f"--write: {folder} is there already", _NEW)


def write_waves(found: Sequence[Rollout], folder: Path, own: Context, since: datetime | None) -> None:
    """Write the files of each rollout, and say what checks its next wave against what came after `since`. Raises InputError."""
    from pipeline.readiness.rolling import next_wave
    from pipeline.readiness.wave_files import check_command, files_of

    try:
        folder.mkdir(parents=True)
        for each in found:
            for name, text in files_of(each):
                (folder / name).write_text(text, encoding="utf-8")
            own.say(f"{folder}: {len(each.waves)} waves of {each.name}; `kubectl apply -f` takes each wave")
            if (wave := next_wave(each)) is not None:
                own.say(f"wave {wave.number} against new traffic: {check_command(each, wave, str(folder), since)}")
    except OSError as error:
        raise InputError(f"--write: {folder} cannot be written: {error.strerror}", _NEW) from error
