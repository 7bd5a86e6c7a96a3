"""check_appArmorProfile.go: profiles in fields, and in the annotations that came before these."""

from __future__ import annotations

from ....cel.library.gotext import quote
from .pod import Failure, Part, Pod, listed, ordered, plural

ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"


def app_armor_profile(pod: Pod) -> Failure | None:
    """The types are sorted, then the annotations."""
    setters = pod.setters(_is_bad)
    values = ordered(each.field("appArmorProfile", "type") or "" for each in (pod.itself, *pod.containers) if _is_bad(each))
    annotations = ordered(
        f"{name}={quote(value)}" for name, value in pod.annotations.items() if name.startswith(ANNOTATION) and _is_forbidden(value)
    )
    if annotations:
        setters.append(plural("annotation", "annotations", len(annotations)))
        values += annotations
    if not setters:
        return None
    reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", len(values))
    return Failure(reason, f"{' and '.join(setters)} must not set AppArmor profile type to {listed(values)}")


def _is_bad(part: Part) -> bool:
    profile = part.field("appArmorProfile")
    return profile is not None and profile.get("type") not in ("RuntimeDefault", "Localhost")


def _is_forbidden(value: str) -> bool:
    return value not in ("", "runtime/default") and not value.startswith("localhost/")
