"""The authorizers of each cluster other than RBAC."""

from __future__ import annotations

from queries import LakeReader

from ..authorization import OtherAuthorizers, RecordedDecisions, others_of
from ..runs.window import Window
from .kept.whole import rows_about
from .sql import statement


def other_authorizers(
    reader: LakeReader, window: Window, given: OtherAuthorizers | None
) -> tuple[tuple[str, OtherAuthorizers], ...]:
    """As given, or as the recorded decisions before the end of the window show them; by cluster, in order."""
    rows = rows_about(reader, "authorizers", statement("authorizers"), {"until": window.until})
    found = others_of(RecordedDecisions(**row) for row in rows)
    return tuple((cluster, given or others) for cluster, others in sorted(found.items()))
