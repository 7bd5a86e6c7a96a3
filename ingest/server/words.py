"""Separates the words that an API server itself writes into a failure from the words that come from the object.

A denial of a Secret may quote the Secret: a policy's messageExpression and a webhook's text do. A strict-decoding error holds the
whole object (kubernetes/apiserver pkg/endpoints/handlers/patch.go). A replay needs only who refused a request and how far it came.
So the server's own words stay, and everything between them is removed.
"""

from __future__ import annotations

import re

REDACTED = "REDACTED"

# The text before a refusal's own words, and the names that stay in it: those of resources, objects, users and groups.
_PREFIX = re.compile(r'[^ "]++(?: "(?:[^"\\]|\\.)*+")? is (forbidden|invalid): ', re.DOTALL)
_PLAIN_PREFIX = re.compile(r'[A-Za-z0-9./-]{1,300}+(?: "[\w@.:/+=#~-]{0,300}+")? is (?:forbidden|invalid): ')
_NAME = r'"[a-z0-9][a-z0-9.:-]{0,252}+"'
_USER_NAME = r'"(?:[^"\\]|\\.){0,300}+"'
_KIND = r"[A-Za-z0-9./-]{1,300}+"
_POLICY = r"'[a-z0-9][a-z0-9.-]{0,252}+'"
# The wordings of ingest/server/wordings.py, with the names in them that readers need. Each repetition is bounded, or is tried at
# the beginning alone, so that the search takes linear time.
_WORDS = re.compile(
    "|".join(
        (
            r"\A(?:forbidden|invalid): ",
            rf"\A{_KIND} {_NAME} (?:not found|already exists)",
            rf"\AOperation cannot be fulfilled on {_KIND} {_NAME}: ",
            r"\A(?:pods|nodes|secrets) ",
            r"\AInternal error occurred: ",
            r"\A(?:Connection closed early|Unauthorized)\Z",
            r"\AApply failed with (?:\d{1,9}+ conflicts?+)?+",
            rf"ValidatingAdmissionPolicy {_POLICY}(?: with binding {_POLICY})?+ denied request: ",
            rf"policy {_POLICY} with binding {_POLICY} denied request: ",
            rf"admission webhook {_NAME} denied the request(?:: | without explanation)?+",
            rf"failed calling webhook {_NAME}(?:: )?+",
            rf'\AUser {_USER_NAME} cannot [a-z:-]{{1,60}}+ resource "[\w./*%:~-]{{0,300}}+" in API group "[a-z0-9.-]{{0,253}}+"'
            r'(?: in the namespace "[a-z0-9.-]{0,253}+"| at the cluster scope)?+',
            rf"\AUser {_USER_NAME} cannot (?:create|impersonate)(?= )",
            rf"\Auser {_USER_NAME} \(groups=\[[^\]]*+\]\) is attempting to grant RBAC permissions not currently held:",
            rf"\Auser {_USER_NAME} (?:must have \"get\" permission on all objects of the referenced paramKind"
            r"|does not have \"get\" permission on the object referenced by paramRef)",
            r"\Amust have cluster-admin privileges to use the aggregationRule\Z",
            r'\Anot permitted to do "[a-z-]{1,60}+", reason: ',
            r'\Auser not permitted to (?:approve|sign|attest) (?:requests with|for) signerName "[A-Za-z0-9./:-]{0,600}+"',
            r"\Acannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: ",
            r"\Acannot set an ownerRef on a resource you can't delete: ",
            r"unable to create new content in namespace [a-z0-9-]{1,63}+ because it is being terminated",
            r"the object has been modified; please apply your changes to the latest version and try again",
            r"in the precondition",
            r'violates PodSecurity "[a-z]{1,20}+:[a-z0-9.]{1,20}+"',
            r"(?:exceeded|insufficient|failed|status unknown for) quota",
            r"not yet ready to handle request",
            r"failed to create (?:manager|typed patch object)",
            r'\A "" is invalid: patch: ',
            r"\Athe server rejected our request due to an error in our request",
            r"\Athe server could not find the requested resource",
            r"strict decoding error: ",
            r"compilation error: |failed messageExpression: ",
            r"validation failed due to running out of cost budget, no further validation rules will be run",
        )
    )
)
# kubernetes/apiserver pkg/admission/plugin/policy/validating/validator.go; the expression may contain the same words.
_EXPRESSION_ERROR = re.compile(r"expression '.*' resulted in error: ", re.DOTALL)

# Every reason that apimachinery knows (pkg/apis/meta/v1/types.go, StatusReason); a webhook may answer with any other text.
REASONS = frozenset(
    (
        *("Unauthorized", "Forbidden", "NotFound", "AlreadyExists", "Conflict", "Gone", "Invalid", "ServerTimeout", "Timeout"),
        *("StoreReadError", "TooManyRequests", "BadRequest", "MethodNotAllowed", "NotAcceptable", "RequestEntityTooLarge"),
        *("UnsupportedMediaType", "InternalError", "Expired", "ServiceUnavailable"),
    )
)


def server_words(message: str) -> str:
    """A failure's text without the parts that may come from the object; the same text if the server wrote all of it."""
    prefix = _PREFIX.match(message)
    if prefix is not None:
        kept = prefix[0] if _PLAIN_PREFIX.fullmatch(prefix[0]) else f"{REDACTED} is {prefix[1]}: "
        return kept + _server_words(message[prefix.end() :])
    return _server_words(message)


def _server_words(message: str) -> str:
    kept: list[str] = []
    end = 0
    for match in _WORDS.finditer(message):
        kept += (_withheld(message[end : match.start()]), match[0])
        end = match.end()
    kept.append(_withheld(message[end:]))
    return "".join(kept)


def _withheld(text: str) -> str:
    """The placeholder of a text between the server's words, with the spaces around it."""
    inner = text.strip(" :,.;\n")
    if inner in ("", REDACTED):
        return text
    if _EXPRESSION_ERROR.match(text):
        return f"expression '{REDACTED}' resulted in error: {REDACTED}"
    return (" " if text[0] in " :,;." else "") + REDACTED + (" " if text[-1] == " " else "")
