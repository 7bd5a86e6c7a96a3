"""The files with which the API servers of a cluster ask the recorder webhook: its configuration, and a way without a token in it.

API servers show a webhook no identity, unless they were started with one for its host (`--admission-control-config-file`;
kubernetes.io, "Authenticate API servers"). Managed control planes have no such flag.
"""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import urlsplit

import yaml

from .webhook_files import Sink

RECORDER = "recorder.yaml"
ADMISSION, ADMISSION_KUBECONFIG = "recorder-admission.yaml", "recorder.kubeconfig"
_NAME = "recorder.hindcast.example.com"
_HEAD = "# The webhook that records what admission saw, and allows every request. Apply it with kubectl.\n"
_IN_PATH = "# The token is in the path: whoever may read this object can write reviews of this cluster, and no audit events.\n"
_NOISE = "!(request.resource.resource in ['leases', 'events'])"


def recorder_text(sink: Sink, token: str) -> str:
    """The ValidatingWebhookConfiguration. A client certificate, if given, replaces the token in the path."""
    client: dict[str, str] = {"url": _url(sink) if sink.client_certificate else f"{_url(sink)}/{token}"}
    if sink.authority_pem:
        client["caBundle"] = b64encode(sink.authority_pem.encode()).decode()
    webhook = {
        "name": _NAME,
        "failurePolicy": "Ignore",
        "matchPolicy": "Exact",
        "sideEffects": "None",
        "timeoutSeconds": 2,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}],
        "matchConditions": [{"name": "no-noise", "expression": _NOISE}],
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hindcast-recorder"},
        "webhooks": [webhook],
    }
    return _HEAD + ("" if sink.client_certificate else _IN_PATH) + yaml.safe_dump(configuration, sort_keys=False)


def admission_text(folder: str) -> str:
    """The file for --admission-control-config-file, which lies in `folder` on the control plane."""
    plugin = {
        "name": "ValidatingAdmissionWebhook",
        "configuration": {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": f"{folder}/{ADMISSION_KUBECONFIG}",
        },
    }
    return yaml.safe_dump(
        {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": [plugin]}, sort_keys=False
    )


def admission_kubeconfig_text(sink: Sink) -> str:
    """The identity of API servers before the recorder: a user of this kubeconfig has the host of a webhook as its name."""
    user = {"client-certificate": sink.client_certificate, "client-key": sink.client_key}
    config = {"apiVersion": "v1", "kind": "Config", "users": [{"name": urlsplit(sink.server).netloc, "user": user}]}
    return yaml.safe_dump(config, sort_keys=False)


def _url(sink: Sink) -> str:
    return f"{sink.url.removesuffix(f'/audit/{sink.cluster}')}/admission/{sink.cluster}"
