"""Faults of Hindcast itself, as a reason why something could not be judged.

A fault in one expression or policy costs no other its verdict, and it is never folded into a value or an error of CEL: the result
is unknown. Front doors say so loudly, because only a person can mend it.
"""

from __future__ import annotations

from pathlib import PurePath
from traceback import extract_tb
from typing import Final

# Every reason that tells of such a fault has these words in it, and no other reason has.
DEFECT: Final = "a defect of Hindcast, please report it"


def defect_of(problem: BaseException) -> str:
    """Why there is no result: the fault, and the line of ours where it came up."""
    if isinstance(problem, MemoryError):
        return f"{DEFECT}: there was not enough memory"
    frames = extract_tb(problem.__traceback__)
    place = f" ({_module(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return f"{DEFECT}: {problem.__class__.__name__}: {problem}{place}"


def _module(file: str) -> str:
    """The path of a source file from its package on: where the installation lies is nobody's business."""
    parts = PurePath(file).parts
    if "pipeline" not in parts:
        return parts[-1]
    return "/".join(parts[-1 - parts[::-1].index("pipeline") :])
