"""Proposals: exemptions put into the manifests, with the result of the replay that shows their effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from ...request import Object
from .exclusions import Exclusion, Kind
from .exemptions import Choice, Chosen
from .manifests import Key, Manifests, key_of, merge_patches
from .measures import Exemption, ExemptionKind

_KINDS: Mapping[Kind, ExemptionKind] = {
    Kind.NAMESPACE: ExemptionKind.NAMESPACE_EXCLUSION,
    Kind.LABEL: ExemptionKind.MATCH_CONDITION,
    Kind.OBJECT: ExemptionKind.MATCH_CONDITION,
    Kind.WORKLOAD: ExemptionKind.MATCH_CONDITION,
    Kind.USER_IN_NAMESPACE: ExemptionKind.SUBJECT,
    Kind.USER: ExemptionKind.SUBJECT,
    Kind.CONTROLLER: ExemptionKind.SUBJECT,
    Kind.GROUP: ExemptionKind.SUBJECT,
}


@dataclass(frozen=True, slots=True)
class Left:
    """The denials and unknowns of one policy in a replay with the exemptions applied; `None` figures were not replayed."""

    denied: int
    unknown: int


@dataclass(frozen=True)
class Proposal:
    """Exemptions for some policies, put into their manifests, and the result of the replay with them.

    `left` has the remaining denials and unknowns of each policy with exemptions; a policy that is not in it was not replayed again.
    `who` says who can use each exclusion. `targets` names the manifest of each thing. The thing has the name of its policy, or for
    a webhook CONFIGURATION/WEBHOOK.
    """

    choices: tuple[Choice, ...]
    before: Manifests
    after: Manifests
    review_by: date | None
    left: Mapping[str, Left] = field(default_factory=dict)
    who: Mapping[Exclusion, str] = field(default_factory=dict)
    targets: Mapping[str, Key] = field(default_factory=dict)

    def target_of(self, exclusion: Exclusion) -> Key:
        """The manifest that an exclusion changes."""
        kind, name = self.targets[exclusion.policy]
        if exclusion.binding is None or "/" in exclusion.policy:
            return kind, name
        return f"{kind}Binding", exclusion.binding

    @property
    def denies_nothing(self) -> bool:
        """Whether the replay with everything applied had no would-be denial."""
        return not any(left.denied for left in self.left.values()) and not any(choice.left for choice in self.choices)

    @property
    def fits_later(self) -> bool:
        """Whether exemptions from the earlier half of the time leave no denial in the later half, for every policy."""
        return not any(choice.later.workloads_denied for choice in self.choices if choice.later is not None)

    @property
    def is_clean(self) -> bool:
        """Whether the replay also left nothing unknown: an unknown request may be a denial."""
        return self.denies_nothing and not any(left.unknown for left in self.left.values())

    def exemptions_of(self, policy: str, binding: str | None) -> tuple[Exemption, ...]:
        """The report's exemptions: those on the binding, and those on its policy.

        The patch of an object stands with the first exemption on it and holds all of them, because lists are patched as a whole.
        """
        patches = {key_of(patch): patch for patch in merge_patches(self.before, self.after)}
        return tuple(
            _exemption(item, self.target_of(item.exclusion), patches, self.review_by, self.who.get(item.exclusion, ""))
            for choice in self.choices
            if choice.policy == policy
            for item in choice.chosen
            if item.exclusion.binding in (binding, None) or binding is None
        )


def _exemption(item: Chosen, target: Key, patches: dict[Key, Object], review_by: date | None, who: str) -> Exemption:
    """One exemption of the report; it takes its patch out of `patches`."""
    exclusion, width = item.exclusion, item.width
    return Exemption(
        kind=_KINDS[exclusion.kind],
        subject=exclusion.words,
        target="/".join(target),
        patch=patches.pop(target, {}),
        hides_requests=width.requests,
        hides_units=width.units,
        denied_requests=width.denied_requests,
        denied_units=width.denied_units,
        review_by=review_by,
        reason=str(width),
        who=who,
    )
