"""The AdmissionReviews of a recorded request: what a validating webhook, which stands after policies, was asked about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ingest.reviewed import CANDIDATES, CONTRADICTS, OBJECTS_EXPIRED, REVIEWED, REVIEWS, UNCLEAR
from ingest.sources.reviews import FIELD, OBJECT, OLD_OBJECT, ReviewRequest

from ..request import Evidence, GroupVersionKind, Json, Known, Object, Operation, Unknown
from .evidence import LazyKnown

SOURCE = "admission review"
_CONVERTED = Unknown("the webhook that recorded the review was sent the object in another version")
_Decode: TypeAlias = Callable[[Any], Json]


class _Extra(msgspec.Struct, rename="camel"):
    """The fields of a review: of an event without an audit event, or of each row in `reviews`."""

    review: ReviewRequest | None = None
    review_object: msgspec.Raw = msgspec.Raw()
    review_old_object: msgspec.Raw = msgspec.Raw()
    reviews: list[dict[str, Any]] = []
    unclear: str = ""


assert {FIELD, OBJECT, OLD_OBJECT, REVIEWS, UNCLEAR} == {"review", "reviewObject", "reviewOldObject", "reviews", "unclear"}
_extra = msgspec.json.Decoder(_Extra)


class Review(NamedTuple):
    """One review of a request. `is_last` is false if admission may have run again with other objects."""

    request: ReviewRequest
    object_raw: bytes | None
    old_raw: bytes | None
    hidden: frozenset[str]  # the bodies that redaction removed
    is_last: bool

    @property
    def dry_run(self) -> bool:
        return self.request.dry_run is True

    @property
    def operation(self) -> Operation:
        return Operation(self.request.operation)

    @property
    def name(self) -> Evidence[str]:
        return Known(self.request.name, SOURCE)

    @property
    def kind(self) -> GroupVersionKind:
        """The kind of the object as the client asked for it."""
        asked = self.request.request_kind or self.request.kind
        return GroupVersionKind(asked.group, asked.version, asked.kind)

    @property
    def options(self) -> Evidence[Object | None]:
        return Known(self.request.options, SOURCE)

    def new(self, decode: _Decode) -> Evidence[Object | None]:
        """`object` of the request."""
        return self._body(self.object_raw, OBJECT, decode)

    def old(self, decode: _Decode) -> Evidence[Object | None]:
        """`oldObject` of the request."""
        return self._body(self.old_raw, OLD_OBJECT, decode)

    def _body(self, raw: bytes | None, field: str, decode: _Decode) -> Evidence[Object | None]:
        if field in self.hidden:
            return Unknown(f"the {field} was redacted")
        if raw is None:
            return Known(None, SOURCE)
        if self.request.request_kind not in (None, self.request.kind):
            return _CONVERTED
        return LazyKnown(lambda: decode(raw), SOURCE)


def reviews_of(review: str | bytes | None, flags: frozenset[str], notes: str) -> tuple[Review, ...]:
    """The reviews of an event in the order of time; `notes` is its note on redaction. Empty if none is surely of its request."""
    if review is None or REVIEWED not in flags or OBJECTS_EXPIRED in flags:
        return ()
    try:
        found = _extra.decode(review)
        each = [found, *(_extra.decode(row["review"]) for row in found.reviews)]
    except (ValueError, LookupError, TypeError, RecursionError):
        # Earlier versions stored reviews that no server sends. They say nothing, so what only they knew is unknown.
        return ()
    if found.unclear in (CANDIDATES, CONTRADICTS):
        return ()
    hidden = frozenset(note.partition("=")[0] for note in notes.split(","))
    return tuple(
        Review(one.review, _bytes(one.review_object), _bytes(one.review_old_object), hidden, not found.unclear)
        for one in each
        if one.review is not None
    )


def _bytes(raw: msgspec.Raw) -> bytes | None:
    return bytes(raw) or None
