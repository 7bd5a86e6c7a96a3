"""Exemptions of webhooks: a namespace that the namespaceSelector of a webhook leaves out, or a match condition of it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...manifests.documents import Document
from ...manifests.exempting import add_condition, leave_out_namespace
from ...request import Object
from ..exempting import Excluded, Exemptions
from .decode import configurations_of
from .model import Configuration

_SOURCE = "webhooks with exemptions"


class WebhookExemptions(Exemptions[Any]):
    """See Exemptions. The rules are configurations; those of the log are what they are."""

    conditions_per_binding = True

    def written(self, rules: Any) -> Sequence[Object] | None:
        """See Exemptions."""
        return [each.written for each in rules] if isinstance(rules, tuple) else None

    def excluding(self, rules: Any, excluded: Sequence[Excluded]) -> tuple[Configuration, ...]:
        """See Exemptions."""
        objects = [copy.deepcopy(each.written) for each in rules]
        for exclusion in excluded:
            for hook in _webhooks(objects, exclusion):
                if exclusion.namespace:
                    leave_out_namespace(hook, exclusion.namespace)
                else:
                    add_condition(hook, exclusion.expression)
        read = configurations_of([Document(each, _SOURCE) for each in objects])
        given = {(each.phase, each.name): each.namespaces for each in rules}
        return tuple(replace(each, namespaces=given[each.phase, each.name]) for each in read)


def _webhooks(objects: Sequence[Object], exclusion: Excluded) -> list[Object]:
    own = [each for each in objects if each["metadata"]["name"] == exclusion.policy]
    return [hook for each in own for hook in each["webhooks"] if hook["name"] == exclusion.binding]
