"""The configuration of the plugin, as the API server reads it from the file of `--admission-control-config-file`.

Follows k8s.io/pod-security-admission admission/api, whose versions have the same fields and defaults. Texts are the server's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ingest.errors import InputError

from ...manifests.documents import Document
from ...manifests.fields import Fields
from ..stage import Kind
from .checks.table import Level
from .policy import DEFAULT, LATEST, MODES, NO_LEVEL, NO_VERSION, LevelVersion, Policy, is_level, is_version

PLUGIN = "PodSecurity"
OUTER_KINDS = tuple(Kind(group, "AdmissionConfiguration") for group in ("apiserver.config.k8s.io", "apiserver.k8s.io"))
INNER_KIND = Kind("pod-security.admission.config.k8s.io", "PodSecurityConfiguration")
_OUTER_VERSIONS = ("apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1")
_INNER_VERSIONS = tuple(f"{INNER_KIND.group}/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@dataclass(frozen=True, slots=True)
class Configuration:
    """The defaults, and the exact names that are exempt. `source` is its place in a file; empty where none was given."""

    defaults: Policy = field(default_factory=lambda: DEFAULT)
    usernames: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()
    source: str = field(default="", compare=False)


def configuration_of(documents: Sequence[Document]) -> Configuration | None:
    """The configuration among some manifests; None without one. Raises InputError with file and line."""
    found = [each for document in documents for each in _inner(Fields(document))]
    if not found:
        return None
    if len(found) > 1:
        raise found[1].error(f": {INNER_KIND.kind} is also in {found[0].where()}; give one of them", "kind")
    return _configuration(found[0])


def _inner(root: Fields) -> Iterator[Fields]:
    """The configurations of the plugin in a manifest."""
    if root.value.get("kind") == INNER_KIND.kind:
        yield root
    elif root.value.get("kind") == OUTER_KINDS[0].kind and _group(root) in {kind.group for kind in OUTER_KINDS}:
        root.text("apiVersion", choices=_OUTER_VERSIONS)
        root.only("apiVersion", "kind", "plugins")
        # The first entry of a plugin counts.
        own = next((each for each in root.objects("plugins") if each.text("name") == PLUGIN), None)
        if own is not None:
            own.only("name", "path", "configuration")
            yield own.object("configuration") or _elsewhere(own)


def _elsewhere(own: Fields) -> Fields:
    """An entry without a configuration of its own: all defaults, unless another file has it."""
    if path := own.text("path", ""):
        raise own.error(f": the configuration is in another file, {path!r}", "path", "give that file with -f, in place of this one")
    return Fields(Document({"apiVersion": _INNER_VERSIONS[0], "kind": INNER_KIND.kind}, own.where()))


def _group(root: Fields) -> str:
    return root.text("apiVersion", "").partition("/")[0]


def _configuration(root: Fields) -> Configuration:
    root.text("apiVersion", choices=_INNER_VERSIONS)
    root.text("kind", choices=(INNER_KIND.kind,))
    root.only("apiVersion", "kind", "defaults", "exemptions")
    exempt = root.object("exemptions")
    if exempt is not None:
        exempt.only("usernames", "namespaces", "runtimeClasses")
    return Configuration(
        _defaults(root.object("defaults")),
        _names(exempt, "usernames", lambda name: "" if name else "username must not be empty"),
        _names(exempt, "namespaces", _wrong(_DNS_LABEL, "a namespace is a DNS label")),
        _names(exempt, "runtimeClasses", _wrong(_DNS_SUBDOMAIN, "a runtime class is a DNS subdomain")),
        root.where(),
    )


def _defaults(fields: Fields | None) -> Policy:
    if fields is None:
        return DEFAULT
    fields.only(*(name for mode in MODES for name in (str(mode), f"{mode}-version")))
    found = {}
    for mode in MODES:
        level, version = fields.text(mode, "") or str(Level.PRIVILEGED), fields.text(f"{mode}-version", "") or LATEST
        if not is_level(level):
            raise fields.error(f": {NO_LEVEL}, not {level!r}", mode)
        if not is_version(version):
            raise fields.error(f": {NO_VERSION}, not {version!r}", f"{mode}-version")
        found[mode] = LevelVersion(Level(level), version)
    return found


def _names(fields: Fields | None, name: str, wrong: Callable[[str], str]) -> frozenset[str]:
    names = () if fields is None else fields.texts(name)
    for index, each in enumerate(names):
        problem = "it is there twice" if each in names[:index] else wrong(each)
        if problem and fields is not None:
            raise InputError(f"{fields.where(name)}: exemptions.{name}[{index}] is {each!r}: {problem}")
    return frozenset(names)


def _wrong(form: re.Pattern[str], words: str) -> Callable[[str], str]:
    return lambda name: "" if form.fullmatch(name) else words
