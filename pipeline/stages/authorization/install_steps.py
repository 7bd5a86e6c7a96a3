"""The writes of a stack manager for each recorded install, held against the steps of the design.

The design 'Stacks Security and Isolation' says which objects an install leaves: the definitions of the stack, a service account, a
role with its binding, and a Deployment. A StackInstall has a Role in its own namespace, a ClusterStackInstall a ClusterRole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from queries import LakeReader

from .installs import Install
from .sql import statement

_RBAC = "rbac.authorization.k8s.io"
_OF_EVERY = ("customresourcedefinitions.apiextensions.k8s.io", "serviceaccounts", "deployments.apps")
_OF_KIND = {
    "StackInstall": (f"roles.{_RBAC}", f"rolebindings.{_RBAC}"),
    "ClusterStackInstall": (f"clusterroles.{_RBAC}", f"clusterrolebindings.{_RBAC}"),
}
# Objects that every controller makes, whatever it installs.
_ASIDE = ("events", "events.events.k8s.io", "leases.coordination.k8s.io")


class Steps(NamedTuple):
    """What a manager created for an install: the steps of the design, those without a recorded create, and other objects.

    `manager` is None where no user but the installer wrote the install; then nothing else is known.
    """

    install: Install
    manager: str | None
    done: tuple[str, ...]
    missing: tuple[str, ...]
    others: tuple[str, ...]


def install_steps(reader: LakeReader, found: Iterable[Install]) -> Iterator[Steps]:
    """The steps of each install that succeeded, by install and manager. Objects are `RESOURCE NAMESPACE/NAME`."""
    by_install: dict[str, dict[str, list[dict[str, str | None]]]] = {}
    for row in reader.arrow(statement("install_writes")).to_pylist():
        by_install.setdefault(row["install_id"], {}).setdefault(row["manager"], []).append(row)
    for install in found:
        if install.is_installed:
            managers = by_install.get(install.audit_id)
            if not managers:
                yield Steps(install, None, (), (), ())
            for manager, rows in (managers or {}).items():
                made = [(str(row["resource"]), str(row["namespace"]), str(row["name"])) for row in rows if row["resource"]]
                yield _steps(install, manager, made)


def _steps(install: Install, manager: str, made: Iterable[tuple[str, str, str]]) -> Steps:
    wanted = (*_OF_EVERY, *_OF_KIND[install.kind])
    done = {resource for resource, _, _ in made}
    others = tuple(f"{resource} {_place(*place)}" for resource, *place in made if resource not in (*wanted, *_ASIDE))
    return Steps(
        install, manager, tuple(each for each in wanted if each in done), tuple(each for each in wanted if each not in done), others
    )


def _place(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
