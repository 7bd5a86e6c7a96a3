"""Objects as YAML that kubectl reads as the same values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml

from ingest.acting import one_line


class _KubernetesDumper(yaml.SafeDumper):
    """Quotes every string that some YAML parser reads as a number, a time or a boolean, as Go does with `1e3` and `y`."""

    def ignore_aliases(self, data: Any) -> bool:
        """An object that occurs twice is written twice."""
        return True


_KubernetesDumper.add_implicit_resolver(
    "!ambiguous", re.compile(r"[-+.0-9][-+.:_0-9A-Za-z]*\Z|[yYnN]\Z|0[xob][0-9a-fA-F_]*\Z"), list("-+.0123456789yYnN")
)


def comment(text: str) -> str:
    """A text as one line of a YAML comment, with its line break at the end; breaks and acting characters within are escapes."""
    return f"# {one_line(text)}\n"


def to_yaml(objects: Iterable[Any], *, is_compact: bool = False) -> str:
    """Objects as a YAML stream, in the order of their fields. `is_compact` writes lists of plain values on one line."""
    style = None if is_compact else False
    text: str = yaml.dump_all(objects, Dumper=_KubernetesDumper, sort_keys=False, width=132, default_flow_style=style)
    return text
