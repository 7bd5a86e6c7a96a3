"""Who acts behind a request: a person, a service account, the control plane, or a tool that keeps the cluster like a repository."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..model import Identity

# How tools name themselves: the start of a service account's name, of a user agent, or of a manager in managedFields.
_TOOLS = (
    ("argocd", "Argo CD"),
    ("argo-cd", "Argo CD"),
    ("openshift-gitops", "Argo CD"),
    ("flux", "Flux"),
    ("kustomize-controller", "Flux"),
    ("helm-controller", "Flux"),
    ("image-automation-controller", "Flux"),
    ("kapp-controller", "kapp"),
    ("fleet-agent", "Fleet"),
    ("fleetagent", "Fleet"),
    ("configsync", "Config Sync"),
    ("root-reconciler", "Config Sync"),
    ("helm", "Helm"),
    ("pulumi", "Pulumi"),
    ("terraform", "Terraform"),
    ("hashicorp", "Terraform"),
)
# Marks that tools leave on objects they apply: a label or annotation, the tool, and the kind of the object that its value names.
_MARKS = (
    ("argocd.argoproj.io/tracking-id", "Argo CD", "Application"),
    ("argocd.argoproj.io/instance", "Argo CD", "Application"),
    ("kustomize.toolkit.fluxcd.io/name", "Flux", "Kustomization"),
    ("helm.toolkit.fluxcd.io/name", "Flux", "HelmRelease"),
    ("kapp.k14s.io/app", "kapp", "App"),
    ("fleet.cattle.io/bundle-id", "Fleet", "Bundle"),
    ("meta.helm.sh/release-name", "Helm", "HelmRelease"),
)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool, the evidence for it, and the source that it made the object from (empty if not recorded)."""

    name: str
    source: str
    parent: str = ""


def identity_of(user: str, user_agent: str, gitops_users: Sequence[str]) -> Identity:
    """What kind of client sends as this user."""
    if user in gitops_users or acting_tool(user, user_agent) is not None:
        return Identity.GITOPS
    if user.startswith("system:node:"):
        return Identity.NODE
    if user.startswith("system:serviceaccount:"):
        return Identity.CONTROL_PLANE if user.startswith("system:serviceaccount:kube-system:") else Identity.SERVICE_ACCOUNT
    return Identity.CONTROL_PLANE if user.startswith("system:") and user != "system:anonymous" else Identity.USER


def acting_tool(user: str, user_agent: str) -> Tool | None:
    """The tool that sends as this user, by the name of its service account or by its user agent."""
    account = user.split(":")[-1] if user.startswith("system:serviceaccount:") else ""
    return _named(account, f"user {user}") or _named(user_agent, f"userAgent {user_agent}")


def applying_tool(steps: Sequence[tuple[str, Mapping[str, Any]]]) -> Tool | None:
    """The tool that applied an object or an owner of it, by the marks on them and their managedFields.

    `steps` are the names and metadata of the object and its owners, as recorded. A part that has the wrong type is ignored.
    """
    for step, metadata in steps:
        for kind in ("labels", "annotations"):
            found = metadata.get(kind)
            for key, tool, parent in _MARKS:
                if isinstance(found, dict) and key in found:
                    # The tracking id of Argo CD is `APPLICATION:GROUP/KIND:NAMESPACE/NAME`.
                    return Tool(tool, f"{kind.removesuffix('s')} {key} of {step}", f"{parent}/{str(found[key]).split(':')[0]}")
    for step, metadata in steps:
        fields = metadata.get("managedFields")
        for entry in fields if isinstance(fields, list) else ():
            manager = entry.get("manager", "") if isinstance(entry, dict) else ""
            managed = _named(str(manager), f"managedFields of {step}")
            if managed is not None:
                return managed
    return None


def _named(name: str, source: str) -> Tool | None:
    lower = name.lower()
    return next((Tool(tool, source) for start, tool in _TOOLS if lower.startswith(start)), None)
