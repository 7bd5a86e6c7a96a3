"""check_seLinuxOptions.go."""

from __future__ import annotations

from collections.abc import Collection

from .pod import Failure, Part, Pod, Rule, named, ordered

V1_0 = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
V1_31 = V1_0 | {"container_engine_t"}


def se_linux_options(types: Collection[str]) -> Rule:
    """Types other than these, users and roles are forbidden; a level is free."""

    def forbidden(part: Part) -> str | None:
        found = part.field("seLinuxOptions", "type") or ""
        return None if found in types else found

    def is_bad(part: Part) -> bool:
        return forbidden(part) is not None or any(part.field("seLinuxOptions", name) for name in ("user", "role"))

    def rule(pod: Pod) -> Failure | None:
        setters = pod.setters(is_bad)
        if not setters:
            return None
        parts = (pod.itself, *pod.containers)
        wrong = ordered(found for each in parts if (found := forbidden(each)) is not None)
        data = [named("type", wrong)] if wrong else []
        data += [f"{name} may not be set" for name in ("user", "role") if any(each.field("seLinuxOptions", name) for each in parts)]
        return Failure("seLinuxOptions", f"{' and '.join(setters)} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}")

    return rule
