"""Given RBAC objects: all of them are known, and no others exist."""

from __future__ import annotations

from collections.abc import Iterable

from ..request import Known, Object
from .documents import BINDINGS, ROLES, binding_from_object, rules_from_object
from .rbac import Binding, Bindings, Rules, Versions


class GivenRbac:
    """Roles and bindings from objects; implements RbacObjects. Skips objects of other kinds."""

    def __init__(self, objects: Iterable[Object], source: str = "given") -> None:
        """Raises InputError for a role or binding that cannot be read."""
        self._source = source
        self._roles: dict[tuple[str, str], Rules] = {}
        bindings: dict[str, list[Versions[Binding]]] = {}
        for value in objects:
            kind = value.get("kind")
            if kind in ROLES:
                metadata = value["metadata"]
                namespace = (metadata.get("namespace") or "default") if kind == "Role" else ""
                self._roles[namespace, metadata.get("name") or ""] = rules_from_object(value, source)
            elif kind in BINDINGS:
                binding = binding_from_object(value, source)
                bindings.setdefault(binding.namespace, []).append((Known(binding, source),))
        self._bindings = {namespace: Bindings(found) for namespace, found in bindings.items()}

    def bindings(self, namespace: str) -> Bindings:
        """See RbacObjects."""
        return self._bindings.get(namespace) or Bindings(())

    def role(self, namespace: str, name: str) -> Versions[Rules]:
        """See RbacObjects."""
        return (Known(self._roles.get((namespace, name)), self._source),)
