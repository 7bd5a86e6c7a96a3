"""Secrets deep inside texts, and long scripts."""

from __future__ import annotations

import json
import time

import pytest

from ingest.redaction.commands import clean_command
from ingest.redaction.redact import Redactor
from tests.canaries import CANARY, build, raw

SECRETS = (
    '{"kind":"Secret","data":{"k":"CANARY"}}',
    '{"kind":"SecretList","items":[{"stringData":{"k":"CANARY"}}]}',
    '{"kind":"S\\u0065cret","data":{"k":"CANARY"}}',
    "kind: Secret\ndata:\n  k: CANARY\n",
)
PARTS = (
    "echo x | chpasswd ", "chpasswd ", "vault login ", "| ", "password '", "identified with x ", "<<E x\n", "auth(", "{kind:Secret",
)  # fmt: skip


@pytest.mark.parametrize("depth", [1, 5, 8, 9, 11])
@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_in_json_at_any_depth_is_removed(depth: int, secret: str) -> None:
    text = secret.replace("CANARY", CANARY)
    for _ in range(depth):
        text = json.dumps({"a": text})
    line = raw(build({"of": "configmaps", "event": {"requestObject": {"kind": "ConfigMap", "data": {"x": text}}}}))
    assert CANARY.encode() in line
    assert CANARY.encode() not in Redactor().apply(line)


@pytest.mark.parametrize("part", PARTS)
def test_long_scripts_are_searched_in_linear_time(part: str) -> None:
    seconds = []
    for count in (4_000, 32_000):
        began = time.process_time()
        clean_command([part * count])
        seconds.append(time.process_time() - began)
    assert seconds[1] < 40 * max(seconds[0], 0.005)  # 8 times in linear time, 64 times in quadratic time
