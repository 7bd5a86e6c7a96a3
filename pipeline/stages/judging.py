"""What judges requests that were not sent: objects that a window did not try, and recorded requests with a change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ..history.world import LogHistory
from ..request import AdmissionRequest, GroupVersionResource


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of one (policy, binding) on a request: deny, unknown or admit; `text` is the message or the missing evidence.

    `is_enforced`: the client would get the denial, because the actions hold Deny, the denial bypasses them, or the policy has no
    binding. `is_excused`: the request is admitted only because an expression fails and failurePolicy is Ignore.
    """

    outcome: str
    text: str = ""
    evidence: str = "exact"
    is_enforced: bool = False
    is_excused: bool = False


class Judge(Protocol):
    """One judged thing with one binding, or with none."""

    @property
    def reads_user(self) -> bool:
        """Whether the judgement can depend on the user."""
        ...

    def concerns(self, operation: str, resource: GroupVersionResource, is_namespaced: bool) -> bool:
        """Whether its rules match such requests."""
        ...

    def judge(self, request: AdmissionRequest, moment: datetime | None = None) -> Judgement | None:
        """Judge a request in the world of `moment` (default: the request's own time); None if the rules do not match it."""
        ...

    def smallest_change(self, request: AdmissionRequest) -> str:
        """A change that lets a denied request pass, in words; empty if none was found."""
        ...


class Judges(Protocol):
    """The judges of a plan, with the recorded past of the cluster."""

    @property
    def history(self) -> LogHistory:
        """The recorded past that they judge by."""
        ...

    def judge_of(self, policy: str, binding: str | None) -> Judge | None:
        """The judge of a judged thing and binding; None if the plan does not have this pair."""
        ...
