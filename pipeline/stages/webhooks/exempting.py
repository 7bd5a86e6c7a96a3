"""Exemptions of webhooks: a namespace that the namespaceSelector of a webhook leaves out, or a match condition of it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

from ...manifests.documents import Document
from ...manifests.exempting import add_condition, leave_out_namespace
from ...request import Object
from ..readiness import Excluded
from .decode import configurations_of
from .model import Configuration

_SOURCE = "webhooks with exemptions"


def with_exemptions(configurations: Sequence[Configuration], excluded: Sequence[Excluded]) -> tuple[Configuration, ...]:
    """The configurations as read from their manifests with exemptions. Raises InputError, as for every manifest."""
    objects = [copy.deepcopy(each.written) for each in configurations]
    for exclusion in excluded:
        for hook in _webhooks(objects, exclusion):
            if exclusion.namespace:
                leave_out_namespace(hook, exclusion.namespace)
            else:
                add_condition(hook, exclusion.expression)
    read = configurations_of([Document(each, _SOURCE) for each in objects])
    given = {(each.phase, each.name): each.namespaces for each in configurations}
    return tuple(replace(each, namespaces=given[each.phase, each.name]) for each in read)


def _webhooks(objects: Sequence[Object], exclusion: Excluded) -> list[Object]:
    own = [each for each in objects if each["metadata"]["name"] == exclusion.policy]
    return [hook for each in own for hook in each["webhooks"] if hook["name"] == exclusion.binding]
