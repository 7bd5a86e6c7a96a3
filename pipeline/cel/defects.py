"""Faults of Hindcast itself, as a reason for an unknown.

A fault in one expression or policy leaves all other verdicts intact. It never becomes a value or an error of CEL: the result is
unknown. Commands and pages report it loudly, because only a person can fix it.
"""

from __future__ import annotations

from pathlib import PurePath
from traceback import extract_tb
from typing import Final

# Every reason for such a fault has these words in it, and no other reason has them.
DEFECT: Final = "a defect of Hindcast, please report it"


def defect_of(problem: BaseException) -> str:
    """The reason for the missing result: the fault, and the line of our code that raised it."""
    if isinstance(problem, MemoryError):
        return f"{DEFECT}: there was not enough memory"
    frames = extract_tb(problem.__traceback__)
    place = f" ({_module(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return f"{DEFECT}: {problem.__class__.__name__}: {problem}{place}"


def _module(file: str) -> str:
    """The path of a source file from its package on, so that reasons do not show where Hindcast is installed."""
    parts = PurePath(file).parts
    if "pipeline" not in parts:
        return parts[-1]
    return "/".join(parts[-1 - parts[::-1].index("pipeline") :])
