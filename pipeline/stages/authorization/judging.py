"""What becomes of a recorded request under proposed roles and bindings.

RBAC only allows, and the record says which binding did. So a request that a binding allowed stays allowed if the files change
neither that binding nor its role. A request that no authorizer allowed is allowed only by a binding or a role that the files
change. In all other cases the answer depends on all roles and bindings at the time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from queries.reach_rules import AUTHORIZER_REASON, DECISION

from ...authorization.authorizer import SUPERUSERS, answer_of
from ...authorization.covering import held_rules
from ...authorization.rbac import Bindings, Opinion, RbacObjects, Rule, Rules, Versions, authorize, keys_of
from ...cel.library.authorizer import Attributes
from ...history.event import Event
from ...other_authorizers import OtherAuthorizers
from ...request import Known, UserInfo
from ...runs.verdict import Flip
from .needs import Ask, Met, Need, NeedKind, meet
from .overlay import NoRbac, Overlay, Proposal
from .questions import is_unreadable, refusal_of

_ALLOWED = re.compile(
    r'RBAC: allowed by (?P<binding_kind>ClusterRoleBinding|RoleBinding) "(?P<binding>[^"/]*)(?:/(?P<namespace>[^"]*))?" '
    r'of (?P<role_kind>ClusterRole|Role) "(?P<role>[^"]*)" to '
)
BY_OTHERS = "an authorizer other than RBAC allowed it"
SUPERUSER = "the group system:masters may do everything"


class Recorded(NamedTuple):
    """What the log has of the authorization of a request.

    `allowed` is None where the log has no decision, or does not tell whether a further permission was lacking. `refused` is the
    permission that was lacking. `is_request_allowed`: the request itself was allowed.
    """

    allowed: bool | None
    reason: str = ""
    refused: NeedKind | None = None
    is_request_allowed: bool | None = None


class Judged(NamedTuple):
    """The predicted outcome of a request; `allowed` is None where it is unknown, and `reason` then says why.

    `need` is the permission that decided, and `reason` the authorizer's reason or the server's message.
    """

    flip: Flip
    recorded: Recorded
    allowed: bool | None
    need: NeedKind
    reason: str = ""
    ask: Ask | None = None

    @property
    def is_recorded(self) -> bool:
        """Whether the record itself shows the outcome, because the files change nothing that it rests on."""
        return self.flip in (Flip.SAME, Flip.STILL_DENIED) and self.reason in (self.recorded.reason, SUPERUSER, BY_OTHERS)

    @property
    def rule(self) -> str:
        """The binding that allows the request, with its role; for a newly denied one, the binding that allowed it. See rule_of."""
        return rule_of(self.recorded.reason if self.flip is Flip.NEWLY_DENIED else self.reason)


def settles(reason: str, proposal: Proposal, gathering: Collection[str]) -> bool:
    """Whether the reason of an allowance shows that it stands under a proposal, whatever roles the cluster had.

    `gathering` are the names of the ClusterRoles that gather others at any time.
    """
    found = _ALLOWED.match(reason)
    if found is None:
        return True
    if proposal.is_only:
        return False
    ground, namespace = proposal.over(NoRbac()), found["namespace"] or ""
    if ground.touches_binding(namespace, found["binding"]) or ground.touches_role(found["role_kind"], namespace, found["role"]):
        return False
    return not (proposal.cluster_roles and found["role_kind"] == "ClusterRole" and found["role"] in gathering)


def rule_of(reason: str) -> str:
    """The binding and the role in an authorizer's reason, such as `RoleBinding/shop/team/ClusterRole/edit`; empty without any."""
    found = _ALLOWED.match(reason)
    if found is None:
        return ""
    place = f"{found['namespace']}/" if found["namespace"] else ""
    role_place = place if found["role_kind"] == "Role" else ""
    return f"{found['binding_kind']}/{place}{found['binding']}/{found['role_kind']}/{role_place}{found['role']}"


def recorded_of(event: Event) -> Recorded:
    """The recorded outcome of authorization, with all questions that the server asked during the request."""
    decision = event.annotations.get(DECISION, "")
    reason = event.annotations.get(AUTHORIZER_REASON, "")
    refused = refusal_of(event)
    decided = {"allow": True, "forbid": False}.get(decision)
    if refused is not None:
        asked = False if refused is NeedKind.REQUEST else True if NeedKind.REQUEST.precedes(refused) else decided
        return Recorded(False, reason, refused, asked)
    return Recorded(None if is_unreadable(event) else decided, reason, None, decided)


def judge(needs: Sequence[Need], recorded: Recorded, proposed: Overlay, others: OtherAuthorizers) -> Judged:
    """The outcome of a request under proposed roles. One refused permission decides, even if others are unknown."""
    if not needs:
        return Judged(Flip.UNKNOWN, recorded, None, NeedKind.REQUEST, "the log does not show which permissions it needed")
    unknown: tuple[Need, Met] | None = None
    decided = needs[-1], Met(True)
    for need in needs:
        met = _met(need, recorded, proposed, others)
        if met.allowed is False:
            return _judged(recorded, need, met)
        if met.allowed is None:
            unknown = unknown or (need, met)
        elif need.kind is (recorded.refused or NeedKind.REQUEST):
            decided = need, met
    return _judged(recorded, *(unknown or decided))


def _judged(recorded: Recorded, need: Need, met: Met) -> Judged:
    if recorded.allowed is None or met.allowed is None:
        flip = Flip.UNKNOWN
    elif met.allowed:
        flip = Flip.SAME if recorded.allowed else Flip.NEWLY_ALLOWED
    else:
        flip = Flip.NEWLY_DENIED if recorded.allowed else Flip.STILL_DENIED
    reason = met.reason
    if flip is Flip.UNKNOWN and met.allowed is not None:
        reason = "the log has no decision of the authorizer"
    return Judged(flip, recorded, met.allowed, need.kind, reason, met.ask)


def _met(need: Need, recorded: Recorded, proposed: Overlay, others: OtherAuthorizers) -> Met:
    if need.kind is NeedKind.REQUEST:
        return _request(need, recorded, proposed, others)
    if len(need.readings) > 1 and recorded.refused is not need.kind:
        need = possible_readings(need, proposed.ground, others)
    met = meet(need, proposed, others)
    is_nameless = need.nameless is not None and recorded.refused is not need.kind
    if is_nameless and met.allowed is False and meet(need, proposed.ground, others).allowed is False:
        # The request passed, so its permission came from something that the recorded roles do not show.
        met = Met(None, need.why_unknown)
    if met.allowed is None and need.user is not None:
        return _unchanged(need, met, need.user, recorded, proposed)
    return met


def _request(need: Need, recorded: Recorded, proposed: Overlay, others: OtherAuthorizers) -> Met:
    ask = need.ask
    if ask is None:
        is_superuser = need.user is not None and SUPERUSERS in need.user.groups
        return Met(True, SUPERUSER) if is_superuser else Met(None, need.why_unknown)
    if SUPERUSERS in ask.user.groups:
        return Met(True, SUPERUSER, ask)
    if recorded.is_request_allowed:
        found = _ALLOWED.match(recorded.reason)
        if found is None:
            return Met(True, BY_OTHERS, ask)
        namespace = found["namespace"] or ""
        is_touched = proposed.touches_binding(namespace, found["binding"]) or proposed.touches_role(
            found["role_kind"], namespace, found["role"]
        )
        if not is_touched:
            return Met(True, recorded.reason, ask)
    if recorded.is_request_allowed is False:
        return _still_refused(ask, recorded, proposed, others)
    opinion = proposed.opinion(ask.user, ask.asked)
    answered = answer_of(opinion, others, ask.user, ask.asked)
    return Met(answered.allowed, _one_reason(answered.reason, opinion), ask)


def _still_refused(ask: Ask, recorded: Recorded, proposed: Overlay, others: OtherAuthorizers) -> Met:
    """A request that no authorizer allowed. Other authorizers do not look at roles, so their answer stays."""
    if others is OtherAuthorizers.ANY and recorded.reason and not recorded.reason.startswith("RBAC: "):
        return Met(None, f"another authorizer may have denied it: {recorded.reason}", ask)
    if proposed.proposal.is_only:
        opinion = proposed.opinion(ask.user, ask.asked)
    else:
        opinion = authorize(_Touched(proposed, ask.asked), ask.user, ask.asked)
    if opinion.allowed is None:
        return Met(None, opinion.why, ask)
    if opinion.allowed:
        return Met(True, _one_reason(opinion.reason, opinion), ask)
    return Met(False, _refusing_reason(opinion, recorded) if proposed.proposal.is_only else recorded.reason, ask)


def _refusing_reason(opinion: Opinion, recorded: Recorded) -> str:
    """The reason of a refusal by the given roles alone. The union of authorizers joins their reasons, one a line, and other
    authorizers do not look at roles."""
    others = [line for line in recorded.reason.split("\n") if line and "RBAC: " not in line]
    return "\n".join((*others, *filter(None, [_one_reason(opinion.reason, opinion)])))


def _one_reason(reason: str | None, opinion: Opinion) -> str:
    """The reason; where several are possible, the first by name."""
    return reason if reason is not None else min(filter(None, opinion.reasons), default="")


class _Touched:
    """The bindings that the files change, or whose role they change, for one question."""

    def __init__(self, overlay: Overlay, asked: Attributes) -> None:
        self._overlay = overlay
        # A binding without a record may refer to a changed role. It matters only if that role allows the request.
        self._may_allow = overlay.may_allow(asked)

    def bindings(self, namespace: str) -> Bindings:
        """See RbacObjects."""
        return self._overlay.touched_bindings(namespace, self._may_allow)

    def role(self, namespace: str, name: str) -> Versions[Rules]:
        """See RbacObjects."""
        return self._overlay.role(namespace, name)


def possible_readings(need: Need, ground: RbacObjects, others: OtherAuthorizers) -> Need:
    """The need without readings that the server would have refused: it did not refuse the request."""
    kept = tuple(ways for ways in need.readings if meet(Need(need.kind, (ways,)), ground, others).allowed is not False)
    return replace(need, readings=kept or need.readings)


def _unchanged(need: Need, met: Met, user: UserInfo, recorded: Recorded, proposed: Overlay) -> Met:
    """The recorded outcome of a question whose answer is unknown, where the user's rights changed in no way that matters.

    More rights cannot take a permission away, and fewer cannot give it. A user needs rights with a verb of impersonation to act as
    another.
    """
    references = [grant.role_ref for grant in need.grants if grant.role_ref is not None]
    if recorded.refused is not None and recorded.refused.precedes(need.kind):
        return met
    if not user.is_identified and recorded.refused is need.kind:
        return met  # groups that the log does not show may have the right now
    if any(proposed.touches_role(each.kind, each.namespace, each.name) for each in references):
        return met
    is_refused, namespaces = recorded.refused is need.kind, proposed.namespaces()
    if _view(proposed.ground, namespaces, user) == _view(proposed, namespaces, user):
        return Met(not is_refused, "the files change no right of the user", met.ask)
    before, after = (_rights(objects, namespaces, user, need.kind) for objects in (proposed.ground, proposed))
    if before is None or after is None:
        return met
    if is_refused:
        return Met(False, "the user has no right that it lacked then", met.ask) if after <= before else met
    return Met(True, "the user has every right that it had then", met.ask) if after >= before else met


def _view(objects: RbacObjects, namespaces: Iterable[str], user: UserInfo) -> list[Any]:
    """Everything that can be known of a user's rights: the bindings that may be for the user, and their roles.

    A binding to a group may be for a user whose groups are not recorded.
    """
    keys = keys_of(user)
    found: list[Any] = []
    for namespace in ("", *namespaces):
        bindings = objects.bindings(namespace)
        for versions in bindings.of(keys) if user.is_identified else bindings.every():
            known = [version.value for version in versions if isinstance(version, Known) and version.value is not None]
            roles = [objects.role(each.namespace if each.role_kind == "Role" else "", each.role_name) for each in known]
            found.append((namespace, versions, roles))
        found.append((namespace, bindings.missing))
    return found


def _rights(objects: RbacObjects, namespaces: Iterable[str], user: UserInfo, kind: NeedKind) -> frozenset[tuple[str, Rule]] | None:
    """The rules that a user has, each with its namespace; None where they are not all known."""
    if not user.is_identified:
        return None
    found: set[tuple[str, Rule]] = set()
    for namespace in ("", *namespaces):
        held = held_rules(objects, user, namespace)
        if held.doubts or held.possible:
            return None
        found.update((namespace, rule) for rule in held.sure if kind is not NeedKind.IMPERSONATION or _impersonates(rule))
    return frozenset(found)


def _impersonates(rule: Rule) -> bool:
    return any(verb == "*" or verb.startswith("impersonate") for verb in rule.verbs)
