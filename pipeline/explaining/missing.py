"""Why requests could not be judged, and for each reason the step that makes later requests known.

The reasons are those of pipeline.history, pipeline.matching, pipeline.policies and pipeline.stages. A reason that fits no pattern
has no remedy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class UnknownReason:
    """One reason for unknown verdicts: how many requests it left unjudged, and the remedy that makes later ones known.

    `remedy` is empty where no known step would help. `longer_helps` says whether recording longer would.
    """

    reason: str
    requests: int
    remedy: str = ""
    longer_helps: bool = False


@dataclass(frozen=True, slots=True)
class _Remedy:
    pattern: re.Pattern[str]
    text: str
    longer_helps: bool = False


_BODIES = (
    "record writes at level RequestResponse: `hindcast init` writes such an audit policy, `init --check` lists withheld bodies"
)


_WEBHOOK = (
    "begin with --since after its registration; or register it with failurePolicy Ignore, let its server allow every request, and "
    "let it set the audit annotation would-deny to the message of each denial"
)


def _snapshot(what: str) -> str:
    return f"ingest a snapshot: `kubectl get {what} -A -o json > FILE`, then `hindcast ingest --snapshot FILE`"


# The first pattern that matches a reason counts.
_REMEDIES = tuple(
    _Remedy(re.compile(pattern), text, longer_helps)
    for pattern, text, longer_helps in (
        ("the webhook was not registered then", _WEBHOOK, True),
        (
            "registered then with other rules",
            "put the new rules into force with failurePolicy Ignore first, and record longer",
            True,
        ),
        ("another API server serves", "ingest the audit log of that server too", False),
        ("was changed just before", "later requests meet the settled version", True),
        ("has no binding that says which", "give the binding and its params with -f", False),
        ("dropped when their retention ended", "keep bodies longer: `hindcast expire --objects-before` drops them", False),
        ("redacted|holds credentials", "redaction withheld it before it reached the disk; `ingest --no-redact` keeps it", False),
        ("pipeline to this log", "take the log before that pipeline, or turn off what changes bodies there", False),
        ("keep event.original", "keep event.original in Elastic's documents, or take the API server's own log", False),
        ("replaced the dots in keys", "turn off Replace_Dots of Fluent Bit, dedot or de_dot", False),
        ("truncated", "raise --audit-webhook-truncate-max-event-size of the API server, or record with --audit-log-path", False),
        (r"the audit level was (?:Metadata|None|Request)\b", _BODIES, False),
        ("metadata.managedFields", "set omitManagedFields: false in the audit policy, and record longer", True),
        ("CustomResourceDefinition|^scope of|versions of", _snapshot("customresourcedefinitions"), False),
        ("another authorizer may", "name the cluster's other authorizers with --other-authorizers", False),
        ("^authorizer", _snapshot("roles,rolebindings,clusterroles,clusterrolebindings"), False),
        ("^params: |no snapshot lists", _snapshot("{kind}"), False),
        ("namespace", _snapshot("namespaces"), False),
        ("no earlier version of|nothing is recorded of|last known version|no body known before", _snapshot("{kind}"), True),
        ("changed by", _BODIES, True),
        (
            "only the user's name|the user was not",
            "the exporter left out the user's groups: take the API server's own log",
            False,
        ),
    )
)
_KIND = re.compile(r"(?:no earlier version of|nothing is recorded of|no snapshot lists) ([\w.-]+)")


def explained(reason: str, requests: int = 1) -> UnknownReason:
    """A reason with its remedy."""
    for remedy in _REMEDIES:
        if remedy.pattern.search(reason):
            found = _KIND.search(reason)
            text = remedy.text.replace("{kind}", found[1] if found else "RESOURCE")
            return UnknownReason(reason, requests, text, remedy.longer_helps)
    return UnknownReason(reason, requests)


def most_frequent(reasons: Iterable[tuple[str, int]], shown: int = SHOWN_MAX) -> tuple[UnknownReason, ...]:
    """The reasons that left most requests unjudged, with their remedies."""
    counted = sorted(reasons, key=lambda item: (-item[1], item[0]))
    return tuple(explained(reason, requests) for reason, requests in counted[:shown])
