"""Whether an update of a Pod counts: only then the plugin judges it.

Follows k8s.io/pod-security-admission admission/admission.go (isSignificantPodUpdate, isSignificantContainerUpdate).
"""

from __future__ import annotations

from ...request import Object


def is_significant(new: Object, old: Object) -> bool:
    """Containers are compared by their places, ephemeral containers by their names."""
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    for kind in ("containers", "initContainers"):
        images, before = ([each.get("image") or "" for each in part.get(kind) or ()] for part in (spec, was))
        if images != before:
            return True
    before_by_name = {each.get("name"): each.get("image") or "" for each in was.get("ephemeralContainers") or ()}
    return any(before_by_name.get(each.get("name")) != (each.get("image") or "") for each in spec.get("ephemeralContainers") or ())
