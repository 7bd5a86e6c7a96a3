"""What Kubernetes, cert-manager and prometheus-operator would say of a manifest before they take it.

Kubernetes' own kinds are checked against the published schemas of a minor, where an unknown field is an error. For the kinds of the
two operators, models made from their definitions check names and types of fields; patterns and CEL rules in them are not checked.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from kubernetes_validate import ValidationError, validate
from pydantic import ValidationError as ModelError


@cache
def models() -> dict[tuple[str, str], Any]:
    """The model of each kind of the two operators. They take seconds to import, and every test process collects this file."""
    from cloudcoil.models.cert_manager import v1 as cert_manager
    from cloudcoil.models.prometheus_operator import v1 as prometheus_operator

    return {
        ("cert-manager.io/v1", "Certificate"): cert_manager.Certificate,
        ("monitoring.coreos.com/v1", "ServiceMonitor"): prometheus_operator.ServiceMonitor,
        ("monitoring.coreos.com/v1", "PrometheusRule"): prometheus_operator.PrometheusRule,
    }


def faults(manifest: dict[str, Any], version: str) -> list[str]:
    """What is wrong with a manifest for a Kubernetes minor, as `1.36`; empty if nothing is."""
    model = models().get((manifest["apiVersion"], manifest["kind"]))
    if model is None:
        try:
            validate(manifest, f"{version}.0", strict=True)
        except ValidationError as error:
            return [f"{'.'.join(map(str, error.path))}: {error.message}"]
        return []
    try:
        kept = model.model_validate(manifest).model_dump(by_alias=True, exclude_unset=True, mode="json")
    except ModelError as error:
        return [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
    return [f"{path}: unknown field" for path in _missing(manifest, kept, "")]


def _missing(given: Any, kept: Any, path: str) -> list[str]:
    """The fields that a model did not keep, because it does not know them."""
    if isinstance(given, dict) and isinstance(kept, dict):
        lost = [f"{path}.{name}" for name in given if name not in kept]
        return lost + [each for name in given if name in kept for each in _missing(given[name], kept[name], f"{path}.{name}")]
    if isinstance(given, list) and isinstance(kept, list):
        return [each for index, pair in enumerate(zip(given, kept, strict=True)) for each in _missing(*pair, f"{path}[{index}]")]
    return []
