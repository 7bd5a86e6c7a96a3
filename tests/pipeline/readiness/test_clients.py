"""Who acts, and which tool keeps an object, told from names, user agents and marks."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.readiness.counting.clients import acting_tool, applying_tool, identity_of
from pipeline.readiness.model import Identity


@pytest.mark.parametrize(
    ("user", "agent", "identity"),
    [
        ("alice", "kubectl/v1.36.2", Identity.USER),
        ("system:anonymous", "curl/8", Identity.USER),
        ("system:node:node-1", "kubelet/v1.36.2", Identity.NODE),
        ("system:serviceaccount:ci:deployer", "kubectl/v1.36.2", Identity.SERVICE_ACCOUNT),
        ("system:serviceaccount:ci:deployer", "Helm/3.15", Identity.GITOPS),
        ("system:serviceaccount:argocd:argocd-application-controller", "Go-http-client/2.0", Identity.GITOPS),
        ("system:serviceaccount:flux-system:kustomize-controller", "kustomize-controller/v1", Identity.GITOPS),
        ("system:serviceaccount:kube-system:job-controller", "kube-controller-manager/v1.36.2", Identity.CONTROL_PLANE),
        ("system:kube-scheduler", "kube-scheduler/v1.36.2", Identity.CONTROL_PLANE),
        ("robot", "custom/1", Identity.GITOPS),
    ],
)
def test_identities(user: str, agent: str, identity: Identity) -> None:
    assert identity_of(user, agent, ["robot"]) is identity


@pytest.mark.parametrize(
    ("metadata", "tool", "parent"),
    [
        ({"labels": {"argocd.argoproj.io/instance": "shop"}}, "Argo CD", "Application/shop"),
        ({"annotations": {"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:prod/web"}}, "Argo CD", "Application/shop"),
        ({"labels": {"helm.toolkit.fluxcd.io/name": "web"}}, "Flux", "HelmRelease/web"),
        ({"annotations": {"meta.helm.sh/release-name": "web"}}, "Helm", "HelmRelease/web"),
        ({"managedFields": [{"manager": "kubectl"}, {"manager": "argocd-controller"}]}, "Argo CD", ""),
    ],
)
def test_marks_that_tools_leave(metadata: dict[str, Any], tool: str, parent: str) -> None:
    found = applying_tool([("Pod/x", {}), ("Deployment/web", metadata)])
    assert found is not None
    assert (found.name, found.parent) == (tool, parent)
    assert "Deployment/web" in found.source


def test_a_person_with_kubectl_is_no_tool() -> None:
    assert acting_tool("alice", "kubectl/v1.36.2") is None
    assert applying_tool([("Pod/x", {"labels": {"app": "x"}, "managedFields": [{"manager": "kubectl-client-side-apply"}]})]) is None


def test_metadata_of_other_kinds_than_theirs_names_no_tool() -> None:
    odd: list[Any] = [{"managedFields": 3}, {"managedFields": [None, {"manager": 7}]}, {"labels": "argocd.argoproj.io/instance"}]
    assert [applying_tool([("Pod/x", metadata)]) for metadata in odd] == [None, None, None]
