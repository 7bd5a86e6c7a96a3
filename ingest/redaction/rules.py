"""The resources whose bodies are credentials, and the rules that match them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from ..errors import InputError

# Each entry is RESOURCE, RESOURCE.GROUP or either with /SUBRESOURCE. Without a group it matches every group; without a subresource
# it matches the resource and all of its subresources. Each entry has its reason next to it.
DEFAULT_RESOURCES = (
    "secrets",  # data and stringData, also in lists and in last-applied-configuration
    "serviceaccounts/token",  # the response is a bearer token
    "tokenreviews",  # the request is a bearer token
    "certificatesigningrequests",  # request and issued certificate
    "oauthaccesstokens",  # OpenShift: the object's name is derived from the token, its body grants access
    "oauthauthorizetokens",
)

# Single values that are credentials in objects of one kind, as RESOURCE.GROUP:PATH (redact_paths.py). The rest of the object stays.
DEFAULT_PATHS = (
    "oauthclients.oauth.openshift.io:secret",
    "oauthclients.oauth.openshift.io:additionalSecrets",
    "buildconfigs.build.openshift.io:spec.triggers.*.*.secret",  # a client that knows it can start a build
)
# The object's name is made from the token, or is the token itself (openshift/oauth-server pkg/osinserver/registrystorage).
NAMED_BY_TOKEN = frozenset(("oauthaccesstokens", "oauthauthorizetokens"))

_RULE = re.compile(r"(?P<resource>[a-z0-9-]+)(?:\.(?P<group>[a-z0-9.-]+))?(?:/(?P<subresource>[a-z0-9*-]+))?")


class Reference(msgspec.Struct):
    """The part of an event's objectRef that names its resource."""

    resource: str | None = None
    subresource: str | None = None
    apiGroup: str | None = None  # noqa: N815  (the name on the wire)


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of a table of resources."""

    resource: str
    group: str | None
    subresource: str | None

    def matches(self, ref: Reference) -> bool:
        """Whether a request's resource matches the rule."""
        return (
            ref.resource == self.resource
            and (self.group is None or self.group == (ref.apiGroup or ""))
            and (self.subresource is None or self.subresource == (ref.subresource or ""))
        )

    def covers_object(self, ref: Reference) -> bool:
        """Whether the rule matches whole objects of the group of `ref`."""
        return self.subresource is None and self.group in (None, ref.apiGroup or "")


def parse_rule(text: str) -> Rule:
    """The rule that a setting names. Raises InputError for a text that names no resource."""
    match = _RULE.fullmatch(text)
    if match is None:
        raise InputError(
            f"{text!r} names no resource to redact",
            "write RESOURCE, RESOURCE.GROUP, RESOURCE/SUBRESOURCE, e.g. secrets or tokens.example.com",
        )
    return Rule(match["resource"], match["group"], match["subresource"])
