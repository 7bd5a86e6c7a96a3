"""The audit policy that a replay needs, as the commented YAML file that kube-apiserver reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

WRITES = ("create", "update", "patch", "delete", "deletecollection")
READS = ("get", "list", "watch")

Resources = tuple[tuple[str, tuple[str, ...]], ...]

# Bodies that are credentials. The same table as redact.DEFAULT_RESOURCES, with the groups that an audit policy has to name.
CREDENTIALS: Resources = (
    ("", ("secrets", "serviceaccounts/token")),
    ("authentication.k8s.io", ("tokenreviews",)),
    ("certificates.k8s.io", ("certificatesigningrequests", "certificatesigningrequests/*")),
    ("oauth.openshift.io", ("oauthaccesstokens", "oauthauthorizetokens")),
)
CONNECTS: Resources = (("", ("pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "services/proxy", "nodes/proxy")),)
# Objects that decide whether and how a policy is evaluated: selectors, policies, authorized users, existing kinds.
STATE: Resources = (
    ("", ("namespaces", "namespaces/*")),
    ("admissionregistration.k8s.io", ()),
    ("rbac.authorization.k8s.io", ()),
    ("apiextensions.k8s.io", ("customresourcedefinitions", "customresourcedefinitions/*")),
)
PULSE: Resources = (("coordination.k8s.io", ("leases",)),)
_PULSE_NAMES = ("kube-controller-manager", "kube-scheduler")
# These requests are many, written by machines, and rarely the subject of a policy. Policies never see reviews.
NOISE: Resources = (
    ("", ("events", "endpoints", "nodes/status")),
    ("events.k8s.io", ("events",)),
    ("coordination.k8s.io", ("leases",)),
    ("discovery.k8s.io", ("endpointslices",)),
    ("authentication.k8s.io", ("selfsubjectreviews",)),
    ("authorization.k8s.io", ()),
)


@dataclass(frozen=True, slots=True)
class Coverage:
    """The requests that given policies match.

    `groups` has the resources of each API group, with `R/*` next to each `R`; an empty list, like the group `*`, stands for all.
    `sources` are the policies' names; `reads_managed_fields` when one of them reads managed fields."""

    groups: Resources
    sources: tuple[str, ...] = ()
    reads_managed_fields: bool = False

    @property
    def covers_everything(self) -> bool:
        """Whether a policy matches every API group, which no list of groups can name before Kubernetes 1.36."""
        return any(group == "*" for group, _ in self.groups)


def audit_policy_text(coverage: Coverage | None = None, *, record_reads: bool = False) -> str:
    """The file for --audit-policy-file: for any policy, or only for the requests in `coverage`. Its comments give the reasons.

    With `record_reads` it also records reads of resources, which questions about roles need.
    """
    return "\n".join(_lines(coverage, record_reads)) + "\n"


def _lines(coverage: Coverage | None, record_reads: bool) -> Iterator[str]:
    yield from _head(coverage)
    yield from _rule(
        "Bodies that are credentials stay out of every log: policies on them cannot be replayed, and that is the lesser evil.",
        "Metadata",
        CREDENTIALS,
        WRITES,
    )
    yield from _rule(
        "CONNECT: the server never records bodies of these; the options that policies see are in the URL. exec may be a get.",
        "Metadata",
        CONNECTS,
    )
    urls = "URLs that name no resource: health, metrics, discovery."
    if record_reads:  # a rule for all groups matches these URLs too, so theirs comes first
        yield from _rule(urls, "None", (), urls=("*",))
        yield from _rule(
            "Reads, without bodies: a role that shrinks may refuse them, and a right may never be used.", "Metadata", (), READS
        )
    else:
        yield from _rule("Reads never reach admission, and they are most of the traffic.", "None", (), READS)
        yield from _rule(urls, "None", (), urls=("*",))
    yield from _rule(
        "What decides how policies are evaluated, to be known as of any moment: namespaces for their labels, policies and\n"
        "bindings for when they were in force, roles for the CEL authorizer, CRDs for kinds and schemas.",
        "RequestResponse",
        STATE,
        WRITES,
    )
    if coverage is not None and not coverage.covers_everything:
        yield from _rule(
            f"What {_listed(coverage.sources)} match, and their params. Subresources too: they change the object that the next\n"
            "request finds as its old object. The response is the best source of what policies saw.",
            "RequestResponse",
            coverage.groups,
            WRITES,
        )
    yield from _rest(coverage)


def _rest(coverage: Coverage | None) -> Iterator[str]:
    yield from _rule(
        "A pulse: two leases that are renewed every few seconds. Without one, a quiet night looks like lost events.",
        "Metadata",
        PULSE,
        ("update",),
        names=_PULSE_NAMES,
    )
    if coverage is None:
        yield from _rule("Volume that policies are rarely about; generate with -f POLICIES when yours are.", "None", NOISE)
        yield from _rule("Every other write, whole: any policy can then be tried on it.", "RequestResponse", (), WRITES)
    elif coverage.covers_everything:
        yield from _rule(
            f"{_listed(coverage.sources)} match every API group, which has no other name here than no name.",
            "RequestResponse",
            (),
            WRITES,
        )
    else:
        yield from _rule("Volume that these policies do not match.", "None", NOISE)
        yield from _rule("Every other write: that it happened, by whom, and how it ended.", "Metadata", (), WRITES)


def _head(coverage: Coverage | None) -> Iterator[str]:
    yield "# What kube-apiserver records so that admission policies can be replayed. The first rule that matches a request decides."
    yield "apiVersion: audit.k8s.io/v1"
    yield "kind: Policy"
    yield "# Earlier stages repeat the event without answer and bodies. (A failed authentication has no other: it is not recorded.)"
    yield "omitStages: [RequestReceived, ResponseStarted]"
    if coverage is not None and coverage.reads_managed_fields:
        yield "# A policy reads metadata.managedFields, so they are kept although they are up to half of an object."
        yield "omitManagedFields: false"
    else:
        yield "# Up to half of an object, hardly ever read. Set it to false should a policy of yours read metadata.managedFields."
        yield "omitManagedFields: true"
    yield "rules:"


def _rule(
    why: str,
    level: str,
    resources: Resources,
    verbs: Sequence[str] = (),
    *,
    names: Sequence[str] = (),
    urls: Sequence[str] = (),
) -> Iterator[str]:
    yield from (f"  # {line}" for line in why.splitlines())
    yield f"  - level: {level}"
    if verbs:
        yield f"    verbs: {_flow(verbs)}"
    if urls:
        yield f"    nonResourceURLs: {_flow(urls)}"
    if resources:
        yield "    resources:"
    for group, members in resources:
        parts = [f'group: "{group}"']
        parts += [f"resources: {_flow(members)}"] if members else []
        parts += [f"resourceNames: {_flow(names)}"] if names else []
        yield f"      - {{{', '.join(parts)}}}"


def _flow(values: Iterable[str]) -> str:
    return "[" + ", ".join(f'"{value}"' if not value[:1].isalnum() or "*" in value else value for value in values) + "]"


def _listed(names: Sequence[str], count_max: int = 5) -> str:
    shown = ", ".join(names[:count_max])
    return f"{shown} and {len(names) - count_max} more" if len(names) > count_max else shown
