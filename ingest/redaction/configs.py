"""Credentials in the files of clients: a kubeconfig, and the registries of Docker, as JSON or YAML in texts of any depth."""

from __future__ import annotations

import re
from typing import Final

import re2

from .forms import REDACTED, byte_options

_signs = re2.compile(rb"client-key-data|current-context|auths\\*\"|\bauths:", byte_options())
_START: Final = r"\\*+[\"']?\s*+:\s*+\\*+[\"']?"
_VALUE: Final = r"(?!\\*+[\"'{\[])[^\s\"'\\,}\]]++"
_OF_KUBECONFIG: Final = re.compile(
    rf"((?<![\w-])(?:client-key-data|token|password|id-token|refresh-token|access-token|client-secret){_START}){_VALUE}"
)
_OF_REGISTRIES: Final = re.compile(rf"((?<![\w-])(?:auth|password|identitytoken|registrytoken){_START}){_VALUE}")
_IS_KUBECONFIG: Final = re.compile(r"client-key-data|current-context")
_IS_REGISTRIES: Final = re.compile(r"auths\\*\"|\bauths:")


def clean_configs(document: bytes) -> bytes:
    """JSON, or any text, without the keys, tokens and passwords of such files; the same object without any."""
    if not may_hold_config(document):
        return document
    text = document.decode("utf-8", "surrogateescape")
    cleaned = clean_config_text(text)
    return document if cleaned == text else cleaned.encode("utf-8", "surrogateescape")


def clean_config_text(text: str) -> str:
    """See clean_configs."""
    if _IS_KUBECONFIG.search(text):
        text = _OF_KUBECONFIG.sub(rf"\g<1>{REDACTED}", text)
    return _OF_REGISTRIES.sub(rf"\g<1>{REDACTED}", text) if _IS_REGISTRIES.search(text) else text


def may_hold_config(data: bytes) -> bool:
    """Whether `clean_configs` may change these bytes."""
    return _signs.search(data) is not None
