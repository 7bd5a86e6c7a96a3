"""Which minor versions serve which versions of the API of mutating policies.

Follows the prerelease-lifecycle tags of kubernetes pkg/apis/admissionregistration. A server has v1alpha1 and v1beta1 if enabled.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...cel.minors import words_of
from ..validating.decode import GROUP
from .model import MutatingRules

# The first minor version that serves it, and the last one; None where no end is planned.
_SERVED: dict[str, tuple[int, int | None]] = {"v1alpha1": (32, 37), "v1beta1": (34, 39), "v1": (36, None)}


def unserved(rules: MutatingRules, version: tuple[int, int]) -> Iterator[tuple[str, str]]:
    """The manifests whose API a server of a minor version does not have: where each one stands, and why it is refused."""
    minor = version[1]
    sources = {each.name: each.rules.source for each in rules.policies} | {each.name: each.source for each in rules.bindings}
    for each in rules.written:
        _, _, own = str(each.get("apiVersion")).rpartition("/")
        first, last = _SERVED.get(own, (0, None))
        if first <= minor and (last is None or minor <= last):
            continue
        metadata = each.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else ""
        fitting = [known for known, (begin, end) in _SERVED.items() if begin <= minor and (end is None or minor <= end)]
        others = f"it has {' and '.join(fitting)}, if enabled" if fitting else "no version of this API is served there"
        yield (
            sources.get(str(name)) or f"{each.get('kind')}/{name}",
            f"Kubernetes {words_of(version)} does not serve {GROUP}/{own} {each.get('kind')}: it comes with 1.{first}; {others}",
        )
