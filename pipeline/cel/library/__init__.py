"""The function libraries that Kubernetes adds to CEL, one file each, with the version that added them.

Source: kubernetes/apiserver pkg/cel/environment/base.go. A library has one entry for each version that changed it.
"""

from __future__ import annotations

from ..functions import Library
from . import (
    authorizer,
    cidr,
    comprehensions,
    formats,
    ip,
    lists,
    lists_ext,
    optional,
    quantity,
    regex,
    semver,
    sets,
    strings,
    url,
)
from .costs import Cost

LIBRARIES: tuple[Library, ...] = (
    url.LIBRARY,
    regex.LIBRARY,
    lists.LIBRARY_0,
    lists.LIBRARY,
    authorizer.LIBRARY,
    authorizer.LIBRARY_SELECTORS,
    optional.LIBRARY_0,
    optional.LIBRARY_1,
    optional.LIBRARY,
    quantity.LIBRARY_IN_PLACE,
    quantity.LIBRARY,
    *strings.AGES,
    sets.LIBRARY,
    ip.LIBRARY,
    cidr.LIBRARY,
    formats.LIBRARY_1_31,
    formats.LIBRARY,
    comprehensions.LIBRARY,
    semver.LIBRARY,
    lists_ext.LIBRARY,
)

# The cost of calls whose overload the checker could resolve, by overload id. It comes before the `cost` of the function.
OVERLOAD_COSTS: dict[str, Cost] = {**lists_ext.COSTS, **cidr.COSTS}
