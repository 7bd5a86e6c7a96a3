"""The wordings of an API server's refusals, each under a name: who refused a request, and how far it had come.

Redaction removes parts of a failure's text, and the text alone says who refused. So the wordings of the whole text are noted first,
in the note `wording`. Readers ask `wordings_of`, which prefers this note. So a redacted event counts as the whole
one does. Lakes of earlier versions lack the note; there, a text without any words left has the wording WITHHELD.

The patterns are searches in RE2's syntax, in which a dot also matches a line break. Most are anchored, because names of objects and
the texts of other deniers may contain them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import re2

from ..notes import WORDING

# The note on a text that has no wording of the table.
OTHER = "other"
WITHHELD = "withheld"

# The text before a refusal's own words (apimachinery pkg/api/errors/errors.go, NewForbidden). Other deniers may quote such a text,
# and %q quotes names of objects, hence the escapes.
DENIAL_PREFIX = r'^(?:[^ "]+ (?:"(?:[^"\\]|\\.)*" )?is )?forbidden: '
_UNSAFE_VERB = "unsafe-delete-ignore-read-errors"
_INTERNAL = "^Internal error occurred: "
# The decoder of a patched object, and the texts of evanphx/json-patch v4 (patch.go).
_OPERATIONS = "testing|testing value|add operation|remove operation|replace operation|move operation|copy operation"

WORDINGS: Mapping[str, str] = {
    "closed early": r"^Connection closed early\z",
    "policy": DENIAL_PREFIX + r"ValidatingAdmissionPolicy '[^']*'(?: with binding '[^']*')? denied request: ",
    "mutating policy": r"^policy '[^']*' with binding '[^']*' denied request: ",
    "webhook": r'^admission webhook "[^"]*" denied the request',
    "failed webhook": _INTERNAL + "failed calling webhook ",
    # Permissions: kubernetes/apiserver pkg/endpoints/handlers/responsewriters/errors.go, pkg/endpoints/filters/impersonation,
    # pkg/endpoints/handlers/delete.go; kubernetes/kubernetes pkg/registry/core/pod/rest/authorize.go,
    # pkg/registry/rbac/validation/rule.go, pkg/registry/rbac/clusterrole/policybased/storage.go,
    # plugin/pkg/admission/certificates/{approval,signing,ctbattest}, plugin/pkg/admission/gc/gc_admission.go and
    # pkg/registry/admissionregistration/*/authz.go.
    "user": DENIAL_PREFIX + 'User "',
    "impersonation": DENIAL_PREFIX + r'User "(?:[^"\\]|\\.)*" cannot impersonate',
    "creation": DENIAL_PREFIX + r'User "(?:[^"\\]|\\.)*" cannot create ',
    "connection": r'^pods "[^"]*" is forbidden: (?:\z|RBAC: )',
    "grant": DENIAL_PREFIX
    + r'user "(?:[^"\\]|\\.)*" \(groups=\[.*\]\) is attempting to grant RBAC permissions not currently held:',
    "aggregation": DENIAL_PREFIX + r"must have cluster-admin privileges to use the aggregationRule\z",
    "unsafe delete": DENIAL_PREFIX + f'not permitted to do "{_UNSAFE_VERB}", reason: ',
    "signer": DENIAL_PREFIX + r'user not permitted to (?:approve|sign|attest) .*signerName "',
    "params": 'user .* (?:must have "get" permission on all objects of the referenced paramKind'
    '|does not have "get" permission on the object referenced by paramRef)',
    "owner": DENIAL_PREFIX
    + "cannot set (?:blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"
    "|an ownerRef on a resource you can't delete): ",
    # Plugins and what they ask.
    "pod security": DENIAL_PREFIX + 'violates PodSecurity "',
    # kubernetes/apiserver pkg/admission/plugin/resourcequota/controller.go.
    "quota": DENIAL_PREFIX + r"(?:(?:exceeded|failed|insufficient) quota|status unknown for quota|quota usage is negative for "
    "|unable to get previous usage )",
    "not ready": "not yet ready to handle request",
    "budget": "disruption budget",
    "condition": DENIAL_PREFIX + r"\[?expression '",
    # What a request refers to.
    "pod": "^pods ",
    "bound pod": "^(?:pods |Operation cannot be fulfilled on pods)",
    "bound": "^(?:pods|nodes|secrets) ",
    "target": '^(?:pods|services|nodes|endpoints) "',
    "namespace": '^namespaces "',
    "connecting": r"^Upgrade request required\z|^a container name must be specified for pod |^container .* is not valid for pod "
    r"|^pod .* does not have a host assigned\z|^address not allowed\z",
    "unserved": r"^the server could not find the requested resource\z|^404 page not found",
    # The body.
    "typed": "^failed to create (?:manager|typed patch)",
    "owned field": "^Apply failed with ",
    "precondition": "in the precondition",
    "modified": "the object has been modified; please apply your changes to the latest version and try again",
    "options": r'^[A-Za-z]*Options\.meta\.k8s\.io "',
    "unfit patch": '^(?: "" is invalid: patch: |the server rejected our request due to an error in our request)',
    "invalid": r'^[A-Za-z0-9.-]+ "[^"]*" is invalid: ',
    # kubernetes/apiserver pkg/endpoints/handlers/rest.go, transformDecodeError and checkName.
    "undecoded": r'^\S+ in version "[^"]*" cannot be handled as an? \S+: ',
    "other name": r"^the name(?:space)? of the (?:provided )?object .*(?:URL|request)",
    "no name": r"^the name of the object \(.* based on URL\) was undeterminable: ",
    # kubernetes/apiserver pkg/admission/plugin/webhook/mutating/dispatcher.go.
    "modified deletion": _INTERNAL + r'admission webhook "[^"]*" attempted to modify the object',
    "unfit operation": rf"{_INTERNAL}(?:{_OPERATIONS}|jsonpatch \w+ operation) .*(?:failed|does not apply)",
    "unfit object": _INTERNAL + "json: cannot unmarshal ",
    WITHHELD: r"^(?:[^ \"]+ (?:\"[^\"]*\" )?is )?(?:forbidden|invalid): REDACTED|^REDACTED\z",
}


def searching(name: str) -> str:
    """The pattern of a wording in RE2 syntax, which matches across line breaks in a message."""
    return f"(?s){WORDINGS[name]}"


def wordings_of(message: str, notes: Mapping[str, str]) -> frozenset[str]:
    """The names of the wordings that a failure's text has; of a redacted one, those of the whole text."""
    noted = notes.get(WORDING)
    return wordings_in(message) if noted is None else _noted(noted)


def wording_note(message: str) -> str:
    """The value of the note for a text that will be redacted."""
    return ",".join(sorted(wordings_in(message))) or OTHER


@lru_cache(maxsize=256)
def wordings_in(message: str) -> frozenset[str]:
    """The names of the wordings that a text itself has. One search finds all."""
    return frozenset(_NAMES[number] for number in _every().Match(message) or ())


@lru_cache(maxsize=256)
def _noted(value: str) -> frozenset[str]:
    return frozenset(value.split(","))


@lru_cache(maxsize=1)
def _every() -> Any:
    every = re2.Set.SearchSet()
    for name in _NAMES:
        every.Add(searching(name))
    every.Compile()
    return every


_NAMES = tuple(WORDINGS)
