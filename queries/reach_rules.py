"""How far a recorded request came in the API server, according to its answer: one table of rules, read by SQL and Python.

A request passes the stages of STAGES in their order, and the first refusal ends it. No event names the refusing stage; the code,
the wording and the annotations of the answer show it. Each rule says which stage the request surely passed, which stage refused it,
and why. Where several stages answer alike, the rule names the last that may have refused; the stages between are unknown.
`queries/reach.py` and `queries/reach_sql.py` read the table.

The order of the stages follows kubernetes/apiserver pkg/server/config.go (filters), pkg/endpoints/handlers/*.go,
pkg/registry/generic/registry/store.go and kubernetes/kubernetes pkg/kubeapiserver/options/plugins.go. Requests that another API
server served on behalf of this one pass that server's admission, and the log does not distinguish them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

# The ways through the API server. A deletecollection that finds no object is EMPTY: admission is asked once per object.
WRITE, CONNECT, READ, EMPTY, URL = "write", "connect", "read", "empty", "url"
CONNECT_SUBRESOURCES = frozenset({"attach", "exec", "portforward", "proxy"})
WRITE_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_ALL = frozenset({WRITE, CONNECT, READ, EMPTY, URL})
_ADMITTED = frozenset({WRITE, CONNECT})


class Stage(NamedTuple):
    """One stage: its name, the ways that it is on, and its effect."""

    name: str
    ways: frozenset[str]
    does: str


STAGES = (
    Stage("authentication", _ALL, "finds the user"),
    Stage("impersonation", _ALL, "lets the user act as another"),
    Stage("flow_control", _ALL, "queues the request, or refuses it under load (priority and fairness)"),
    Stage("authorization", _ALL, "asks the authorizers"),
    Stage("decoding", _ALL - {URL}, "finds the resource and the verb, reads options and body"),
    Stage("target", frozenset({WRITE}), "reads the stored object, holds preconditions against it and applies a patch to it"),
    Stage("mutating", _ADMITTED, "mutating admission: built-in plugins, MutatingAdmissionPolicies, webhooks"),
    Stage("strategy", frozenset({WRITE}), "holds the sent version against the stored one, prepares and validates the object"),
    Stage("plugins", _ADMITTED, "validating admission of the built-in plugins before policies, such as Pod Security"),
    Stage("policies", _ADMITTED, "ValidatingAdmissionPolicies"),
    Stage("webhooks", _ADMITTED, "validating webhooks"),
    Stage("quota", _ADMITTED, "ResourceQuota"),
    Stage("storage", _ALL, "carries the request out: reads, writes, opens the connection"),
)

# Kinds that ValidatingAdmissionPolicies are never asked about, even if their rules match. These are the kinds that configure
# policies (kubernetes/apiserver pkg/admission/plugin/policy/generic/plugin.go), and reviews, which are never stored
# (kubernetes/kubernetes pkg/kubeapiserver/admission/exclusion/resources.go).
EXEMPT_CONFIGURATION = frozenset(
    ("admissionregistration.k8s.io", resource)
    for resource in (
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    )
)
EXEMPT_REVIEWS = frozenset(
    (
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    )
)
EXEMPT = EXEMPT_CONFIGURATION | EXEMPT_REVIEWS

DECISION = "authorization.k8s.io/decision"
AUTHORIZER_REASON = "authorization.k8s.io/reason"
FAILURE = "validation.policy.admission.k8s.io/validation_failure"
MUTATION_PREFIX = "mutation.webhook.admission.k8s.io/"

# Policies stand before validating webhooks, so that a review proves that they were asked (ingest/reviewed.py).

# An annotation that proves, for any answer, the stage that was surely passed. The first matching entry counts. Admission may run
# again for the same request, so a recorded failure proves only that policies were asked.
ASKED_BY_FAILURE = "the record shows that policies were asked, and it failed for another reason"
PROVEN_BY_FAILURE = "plugins"
PROVEN_BY_DECISION = "authorization"

# Which webhook refused (apiserver pkg/admission/plugin/webhook/errors/statuserror.go) or could not be called
# (pkg/util/webhook/error.go).
WEBHOOK_NAME = r'^(?:Internal error occurred: failed calling|admission) webhook "([^"]*)"'

# The answer of a deletecollection.
UNRECORDED, NOTHING = "unrecorded", "nothing"
# Codes; 0 stands for an event without an answer.
NO_ANSWER = range(-(2**31), 1)
BELOW_400 = range(1, 400)
SUCCESS = range(200, 300)
REFUSED = range(400, 2**31)
SERVER_ERROR = range(500, 600)
UNTOLD = "the log lacks the text of the refusal, which tells by what"
_UPDATES = ("update", "patch")
_FORBIDDEN, _NOT_FOUND, _CONFLICT, _TOO_MANY = (403,), (404,), (409,), (429,)


@dataclass(frozen=True, slots=True)
class Rule:
    """The answer to a request. Every condition that is given must hold; `says` names a wording of the status message
    (ingest/server/wordings.py).

    `outcome` is the word of `requests.outcome`. `passed` is the last stage that surely let the request pass, or None. `stopped` is
    the stage that refused it, or the last that may have; None where no stage refused it, or the stage is unknown. `decision` is the
    authorizer's annotation, empty without one. `is_silent`: the answer has neither text nor reason, as that of a server behind a
    proxy; `is_untold`: it has no text. `by_mutating_webhook`: the webhook that the message names left a mutation
    annotation. Only mutating webhooks leave one, also when they refuse (apiserver
    pkg/admission/plugin/webhook/mutating/dispatcher.go). `is_reviewed`: an AdmissionReview of the request is recorded.
    """

    outcome: str
    passed: str | None
    stopped: str | None
    why: str
    codes: range | tuple[int, ...]
    _: KW_ONLY
    ways: Collection[str] = ()
    verbs: Collection[str] = ()
    subresources: Collection[str] = ()
    resources: Collection[tuple[str, str]] = ()
    reason: str = ""
    says: str = ""
    is_silent: bool = False
    is_untold: bool = False
    decision: str | None = None
    authorizer_reason: str = ""
    by_mutating_webhook: bool = False
    is_reviewed: bool = False
    listed: str = ""


# fmt: off
_ANSWERED = (
    Rule("open", "policies", None, "a webhook after policies was asked, and no answer is recorded", NO_ANSWER,
         ways=(WRITE, CONNECT), is_reviewed=True),
    Rule("open", "authentication", None, "no answer is recorded", NO_ANSWER),
    # The record of a request whose client left before an answer was written (apiserver pkg/endpoints/filters/audit.go).
    Rule("allowed", "authentication", None, "the handler answered nothing, so that its success was made up", BELOW_400,
         ways=(WRITE, READ, URL), says="closed early"),
    Rule("allowed", "decoding", None, "the deleted objects were not recorded", SUCCESS, verbs=("deletecollection",),
         listed=UNRECORDED),
    Rule("allowed", "storage", None, "it succeeded", SUCCESS),
    Rule("allowed", "storage", None, "it succeeded", (101,)),
    Rule("allowed", "storage", None, "it was answered", BELOW_400, ways=(CONNECT, READ, EMPTY, URL)),
    Rule("allowed", "authentication", None, "no write of this API server is answered so", BELOW_400),
)

# A policy's denial has any of four codes, so the rules match wordings first. The patterns are anchored, because names of objects
# and the texts of other deniers may contain them.
_DENIED = (
    Rule("vap", "plugins", "policies", "a policy refused it", REFUSED,
         says="policy"),
    Rule("map", "target", "mutating", "a mutating policy refused it", REFUSED,
         says="mutating policy"),
    Rule("webhook", "target", "mutating", "a mutating webhook refused it", REFUSED,
         says="webhook", by_mutating_webhook=True),
    Rule("webhook", "policies", "webhooks", "validating webhooks are called after policies", REFUSED,
         says="webhook"),
    Rule("webhook_failure", "target", "mutating", "a mutating webhook failed", REFUSED,
         says="failed webhook", by_mutating_webhook=True),
    Rule("webhook_failure", "policies", "webhooks", "validating webhooks are called after policies", REFUSED,
         says="failed webhook"),
    # A proxied server's own answer has no Status. The authorizer's decision distinguishes it from a refusal of this server.
    Rule("backend", "quota", "storage", "the connection was tried after admission", REFUSED, ways=(CONNECT,), is_silent=True,
         decision="allow"),
)

_BEFORE_DECODING = (
    Rule("authorization", "flow_control", "authorization", "the authorizer refused the request", REFUSED, decision="forbid"),
    # An authorizer that failed leaves its reason, and no decision (pkg/endpoints/filters/authorization.go).
    Rule("error", "flow_control", "authorization", "the authorizer failed", SERVER_ERROR, decision="",
         authorizer_reason="internal error"),
    # This server gives each refusal of a write a text. A log that was trimmed, or a server behind it, lacks the text.
    Rule("untold", "authentication", "storage", UNTOLD, REFUSED, ways=(WRITE, CONNECT), is_untold=True),
    Rule("authentication", None, "authentication", "authentication failed", (401,)),
    # pkg/endpoints/filters/impersonation: it asks the authorizer, and leaves no annotation.
    Rule("authorization", "authentication", "impersonation", "the user may not impersonate", _FORBIDDEN,
         says="impersonation", decision=""),
    # From 1.35, opening the connection asks the authorizer a second question: may the user create the subresource
    # (kubernetes/kubernetes pkg/registry/core/pod/rest/authorize.go)? The refusal has the authorizer's words, and mostly these are
    # empty.
    Rule("admission", "quota", "storage", "the user may not create this connection, which is asked after admission", _FORBIDDEN,
         subresources=("attach", "exec", "portforward"), verbs=("get",), says="connection",
         decision="allow"),
    # An update or patch that creates asks the authorizer for `create` before validating admission
    # (pkg/endpoints/handlers/{update,patch}.go).
    Rule("authorization", "decoding", "plugins", "the authorizer refused a further permission of the request", _FORBIDDEN,
         says="user", decision="allow"),
    Rule("authorization", "authentication", "authorization", "the authorizer refused the request", _FORBIDDEN,
         says="user"),
)

_BY_PLUGIN = (
    Rule("podsecurity", "strategy", "plugins", "Pod Security is asked before policies", _FORBIDDEN,
         says="pod security"),
    # kubernetes/apiserver pkg/admission/plugin/resourcequota/controller.go.
    Rule("quota", "webhooks", "quota", "quota is checked after policies", _FORBIDDEN,
         says="quota"),
    # Policies answer so while they are not synchronized (pkg/admission/plugin/policy/generic/plugin.go). Built-in plugins before
    # them, and webhooks before or after them, answer (pkg/admission/plugin/webhook/generic/webhook.go)in the same words.
    Rule("not_ready", "decoding", "webhooks",
         "some admission plugin was not ready, and the answer does not tell whether it stands before policies", _FORBIDDEN,
         says="not ready"),
    # An Eviction is admitted before its pod is looked up and its budget checked (core/pod/storage/eviction.go, Create). A 429 of
    # priority and fairness comes before authorization.
    Rule("disruption_budget", "quota", "storage", "the budget is asked after admission", _TOO_MANY, subresources=("eviction",),
         says="budget"),
    Rule("disruption_budget", "quota", "storage", "the budget is asked after admission", _TOO_MANY, subresources=("eviction",),
         decision="allow"),
    Rule("not_found", "quota", "storage", "the pod to evict is looked up after admission", _NOT_FOUND, says="pod",
         subresources=("eviction",)),
    Rule("conflict", "quota", "storage", "the pod to evict is looked up after admission", _CONFLICT, says="pod",
         subresources=("eviction",)),
    # core/pod/storage/storage.go (BindingREST, LegacyBindingREST) and core/serviceaccount/storage/token.go.
    Rule("not_found", "quota", "storage", "the pod to bind is looked up after admission", _NOT_FOUND,
         says="bound pod", subresources=("binding",), verbs=("create",)),
    Rule("conflict", "quota", "storage", "the pod to bind is looked up after admission", _CONFLICT,
         says="bound pod", subresources=("binding",), verbs=("create",)),
    Rule("not_found", "quota", "storage", "the pod to bind is looked up after admission", _NOT_FOUND,
         says="bound pod", resources=(("", "bindings"),), verbs=("create",)),
    Rule("conflict", "quota", "storage", "the pod to bind is looked up after admission", _CONFLICT,
         says="bound pod", resources=(("", "bindings"),), verbs=("create",)),
    Rule("not_found", "quota", "storage", "what the token is bound to is looked up after admission", _NOT_FOUND,
         says="bound", subresources=("token",), verbs=("create",)),
    Rule("conflict", "quota", "storage", "what the token is bound to is looked up after admission", _CONFLICT,
         says="bound", subresources=("token",), verbs=("create",)),
    Rule("throttled", "decoding", "plugins", "the server, or a plugin before policies, limits such requests", _TOO_MANY,
         ways=(WRITE, CONNECT), decision="allow"),
    Rule("throttled", "authorization", "storage", "the storage limits requests", _TOO_MANY, decision="allow"),
    Rule("throttled", "authentication", "flow_control", "priority and fairness refused it", _TOO_MANY),
)

# The server looks up the target of a connection when it opens the connection, after admission (pkg/endpoints/handlers/rest.go,
# ConnectResource; kubernetes/kubernetes pkg/registry/core/pod/strategy.go, services and nodes alike).
_CONNECTED = (
    Rule("not_found", "quota", "storage", "the target of the connection is looked up after admission", _NOT_FOUND, ways=(CONNECT,),
         says="target"),
    Rule("unsupported", "quota", "storage", "the connection was prepared after admission", (400,), ways=(CONNECT,),
         says="connecting"),
    Rule("timeout", "authentication", None, "it timed out", (504,), ways=(CONNECT,)),
    Rule("backend", "quota", "storage", "the connection was tried after admission", SERVER_ERROR, ways=(CONNECT,)),
    Rule("backend", "decoding", "storage", "the kubelet did not answer", (*range(500, 504), *range(505, 600)),
         subresources=("log",)),
)

_BY_TARGET = (
    # An apply patch that does not fit the schema (apimachinery pkg/util/managedfields).
    Rule("error", "decoding", "target", "the body could not be applied", SERVER_ERROR,
         says="typed"),
    Rule("conflict", "decoding", "target", "another field manager owns an applied field", _CONFLICT, says="owned field"),
    # pkg/registry/rest/delete.go, BeforeDelete.
    Rule("conflict", "decoding", "target", "a precondition did not hold", _CONFLICT, says="precondition"),
    Rule("exists", "quota", "storage", "the write found the name taken", _CONFLICT, verbs=("create",), reason="AlreadyExists"),
    Rule("exists", "decoding", "storage", "the object appeared meanwhile; the answer does not tell whether policies ran", _CONFLICT,
         reason="AlreadyExists"),
    Rule("conflict", "mutating", "storage", "a stale version is found before policies run, a lost race afterwards", _CONFLICT,
         verbs=_UPDATES, says="modified"),
    Rule("conflict", "decoding", "storage", "a stale version is found before policies run, a lost race afterwards", _CONFLICT),
)

_OTHERS = (
    # A matchCondition that fails refuses without a call, before or after policies (apiserver
    # pkg/admission/plugin/webhook/generic/webhook.go).
    Rule("admission", "decoding", "webhooks",
         "a webhook's match condition failed, and the answer does not tell whether that webhook stands before policies", _FORBIDDEN,
         ways=(WRITE, CONNECT), says="condition"),
    # Only in lakes of earlier versions: redaction now notes the wording.
    Rule("admission", "authentication", "storage", "it was forbidden, and redaction removed the text that tells by what",
         _FORBIDDEN, says="withheld"),
    Rule("admission", "decoding", "plugins", "an admission plugin before policies refused it", _FORBIDDEN, ways=(WRITE, CONNECT)),
    Rule("admission", "authentication", "storage", "it was forbidden, and the answer does not tell by what", _FORBIDDEN),
    Rule("invalid", "authorization", "decoding", "the options of the request are not valid", (422,),
         says="options"),
    # pkg/endpoints/handlers/patch.go.
    Rule("invalid", "decoding", "target", "the patch does not fit the object", (422,), verbs=("patch",),
         says="unfit patch"),
    Rule("invalid", "mutating", "strategy", "the API server found the object invalid", (422,),
         says="invalid"),
    Rule("invalid", "decoding", "strategy", "the API server found the object invalid", (422,)),
    Rule("unsupported", "authorization", "storage", "redaction removed the text that tells how far the connection came", (400,),
         ways=(CONNECT,), says="withheld"),
    Rule("unsupported", "authorization", "strategy", "the API server could not read the request", (400,)),
    Rule("unsupported", "authorization", "decoding", "the API server could not read the request", (406, 413, 415)),
    Rule("unsupported", "authorization", "decoding", "the resource does not allow this verb", (405,)),
    Rule("not_found", "authorization", "decoding", "the resource is not served", _NOT_FOUND,
         says="unserved"),
    # plugin/pkg/admission/namespace/lifecycle: a mutating plugin, though it changes nothing.
    Rule("not_found", "decoding", "mutating", "the namespace did not exist", _NOT_FOUND, ways=(WRITE,), verbs=("create",),
         says="namespace"),
    Rule("not_found", "decoding", "plugins", "the object of the request did not exist", _NOT_FOUND, ways=(WRITE,),
         verbs=("create",)),
    Rule("not_found", "decoding", "storage", "the object did not exist, or was deleted meanwhile", (404, 410), verbs=WRITE_VERBS),
    Rule("not_found", "authentication", "storage", "the requested thing did not exist", (404, 410)),
    Rule("timeout", "authentication", None, "it timed out", (408, 504)),
    Rule("error", "authentication", "storage", "the server failed", REFUSED),
)
# fmt: on

# The first matching rule counts; the last rule matches every other event.
RULES = (*_ANSWERED, *_DENIED, *_BEFORE_DECODING, *_BY_PLUGIN, *_CONNECTED, *_BY_TARGET, *_OTHERS)
