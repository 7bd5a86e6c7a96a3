"""The audit event and the AdmissionReviews of one request are one event of the lake, with the better evidence of both.

A managed cluster logs a request without bodies and groups. A recorder webhook saw them (`ingest/sources/reviews.py`). Hindcast's
own recorder leaves the uid of each review in the audit event, and so do others. Without a uid, a review belongs to an event if the
user, the object and the time leave no other choice.

What belongs together follows from the set of events and reviews alone, and not from the order in which they arrived. So an event
keeps its reviews whole: a later event or review can part them again.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import xxhash

from .aggregated import CLOCKS_APART
from .notes import DRY_RUN, REDACTED, REVIEW, TRANSLATED
from .redaction.redact import is_withheld
from .sources.reviews import FIELD, OBJECT, OLD_OBJECT

# The flag of an event with reviews, and of a review without an event.
REVIEWED = "reviewed"
# The flag of events whose bodies expired before the events. Their reviews are gone, too.
OBJECTS_EXPIRED = "objects_expired"
# The members of the column `review` in an event with reviews: their rows, the columns as they were without them, and why it is not
# clear which review shows what counted.
REVIEWS, BEFORE, UNCLEAR = "reviews", "before", "unclear"
# Those of a review without an event.
MEMBERS = (FIELD, OBJECT, OLD_OBJECT)
# Why reviews are unclear: the event names one of its reviews and others may be of later passes, or the choice is not sure.
PASSES, CANDIDATES = "passes", "candidates"
# The log has the whole object itself, and the review shows another one: somebody else's, or a forged one. It is not used.
CONTRADICTS = "contradicts"
# Some logs have one time for a request, and do not say whether it is that of its begin or of its end.
_UNTIMED = timedelta(seconds=1)
# No request but a connection takes longer (--request-timeout).
LONGEST = timedelta(seconds=60)
WRITES = ("create", "update", "patch", "delete", "deletecollection")
CONNECTS = ("attach", "exec", "portforward", "proxy")
_VERBS = {"CREATE": ("create", "patch", "update"), "UPDATE": ("update", "patch"), "DELETE": ("delete", "deletecollection")}
# Subresources whose answer is the object itself, and resources that are never stored.
_OF_OBJECT = (None, "", "status", "finalize", "approval", "ephemeralcontainers", "resize")
_NEVER_STORED = ("authentication.k8s.io", "authorization.k8s.io")
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# How Hindcast's recorder names the annotation of a review: one for each pass, because the first value of a name stays.
_OF_PASS = re.compile(r"[^/]+/review-(" + _UID.pattern + ")")
_TIMES = ("ts", "stage_ts", "ingest_ts")
_encoder = msgspec.json.Encoder()
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])

Row = dict[str, Any]


class _Request(msgspec.Struct, rename="camel"):
    operation: str
    dry_run: bool | None = None


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _Body(msgspec.Struct):
    metadata: _Meta | None = None


_request = msgspec.json.Decoder(_Request)
_body = msgspec.json.Decoder(_Body)


def is_review(row: Row) -> bool:
    """Whether a row is a review without an event."""
    return REVIEWED in row["flags"] and row["code"] is None and "verb=operation" in dict(row["notes"]).get(TRANSLATED, "")


def joined(rows: Iterable[Row]) -> list[Row]:
    """Rows of one cluster with each review in the event of its request. Reviews that arrived twice are there once."""
    events, reviews = _parted(rows)
    passes, unclear = _claimed(events, reviews)
    taken = {uid for found in passes.values() for uid in found}
    free = {uid: review for uid, review in reviews.items() if uid not in taken}
    near, chosen = _candidates(events, free, {number for number in passes if not _of_pass(events[number])} | _unnamed(events))
    for number, found in near.items():
        if number in passes:
            unclear[number] = PASSES
        elif not (all(len(chosen[uid]) == 1 for uid in found) and _is_one(events[number], found, reviews)):
            unclear[number] = CANDIDATES
    # A review that may be of several requests is kept in the nearest one: it is not a request of its own.
    for uid, numbers in chosen.items():
        passes.setdefault(_nearest(events, numbers, reviews[uid]["ts"]), []).append(uid)
    for found in passes.values():
        found.sort(key=lambda uid: (reviews[uid]["ts"], uid))
    for number, found in passes.items():
        if any(_contradicts(events[number], reviews[uid]) for uid in found):
            unclear[number] = CONTRADICTS
        events[number] = _merged(events[number], [reviews[uid] for uid in found], unclear.get(number, ""))
    return events + [row for uid, row in free.items() if uid not in chosen]


def _nearest(events: Sequence[Row], numbers: Iterable[int], moment: datetime) -> int:
    return min(numbers, key=lambda number: (abs(events[number]["stage_ts"] - moment), events[number]["audit_id"]))


def parted(row: Row) -> tuple[Row | None, list[Row]]:
    """The event as it was without reviews, None where it is a review, and its reviews."""
    if REVIEWED not in row["flags"] or OBJECTS_EXPIRED in row["flags"]:
        return row, []
    if is_review(row):
        return None, [row]
    kept = _fields.decode(row["review"])
    reviews = [_with_pairs(each | {name: datetime.fromisoformat(each[name]) for name in _TIMES}) for each in _rows(kept[REVIEWS])]
    return row | _with_pairs(msgspec.json.decode(kept[BEFORE])), reviews


def uids_of(row: Row) -> set[str]:
    """The uids of reviews that an event names: in keys that the recorder writes. Any annotation may have a UUID as its value."""
    return {match[1] for key, _ in row["annotations"] if (match := _OF_PASS.fullmatch(key))}


def _rows(raw: msgspec.Raw) -> list[Row]:
    rows: list[Row] = msgspec.json.decode(raw)
    return rows


def _with_pairs(row: Row) -> Row:
    """A row as Arrow wants it: JSON has no tuples."""
    return row | {name: [(key, value) for key, value in row[name]] for name in ("annotations", "notes") if name in row}


def _parted(rows: Iterable[Row]) -> tuple[list[Row], dict[str, Row]]:
    events: list[Row] = []
    reviews: list[Row] = []
    for row in rows:
        event, found = parted(row)
        events += [event] if event is not None else []
        reviews += found
    reviews.sort(key=lambda row: (row["ts"], row["stage_ts"], row["audit_id"], row["review"] or ""))
    by_uid: dict[str, Row] = {}
    for row in reviews:
        by_uid.setdefault(row["audit_id"], row)
    return events, by_uid


def _claimed(events: Sequence[Row], reviews: dict[str, Row]) -> tuple[dict[int, list[str]], dict[int, str]]:
    """The reviews that events name, and the events that name a pass whose review is missing."""
    passes: dict[int, list[str]] = {}
    for number, row in enumerate(events):
        named = uids_of(row) & reviews.keys() if row["stage"] == "ResponseComplete" else set()
        # A name alone proves nothing: a webhook may write any.
        if fitting := [uid for uid in sorted(named) if _is_of(row, reviews[uid])]:
            passes[number] = fitting
    return passes, {number: PASSES for number, found in passes.items() if len(found) < len(_of_pass(events[number]))}


def _is_of(event: Row, review: Row) -> bool:
    """Whether a review that an event names is of its request, as far as both know it."""
    if event["ts"] is None or not event["resource"]:
        return False
    is_near = event["ts"] - CLOCKS_APART <= review["ts"] <= event["stage_ts"] + CLOCKS_APART
    return is_near and _place(event) == _place(review) and _fits(event, review, _told_by(review))


def _unnamed(events: Sequence[Row]) -> set[int]:
    return {number for number, row in enumerate(events) if not uids_of(row)}


def _of_pass(row: Row) -> list[str]:
    return [key for key, _ in row["annotations"] if _OF_PASS.fullmatch(key)]


def _candidates(
    events: Sequence[Row], free: dict[str, Row], numbers: Iterable[int]
) -> tuple[dict[int, list[str]], dict[str, list[int]]]:
    """The reviews that may be of an event, by the numbers of some events, and these numbers by review."""
    told = {uid: _told_by(review) for uid, review in free.items()}
    places: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for uid, review in free.items():
        places[_place(review)].append(uid)
    near: dict[int, list[str]] = {}
    chosen: dict[str, list[int]] = defaultdict(list)
    for number in sorted(numbers):
        event = events[number]
        if _is_candidate(event):
            found = [uid for uid in _near(event, places[_place(event)], free) if _fits(event, free[uid], told[uid])]
            near |= {number: found} if found else {}
            for uid in found:
                chosen[uid].append(number)
    return near, chosen


def _is_one(event: Row, found: Sequence[str], reviews: dict[str, Row]) -> bool:
    """Whether reviews are of one request: a deletecollection has one for each object, and others are copies of one another."""
    if event["verb"] != "deletecollection":
        return len({_evidence(reviews[uid]) for uid in found}) == 1
    names = [reviews[uid]["name"] for uid in found]
    return len(set(names)) == len(names)


def _evidence(review: Row) -> str:
    fields = dict(_fields.decode(review["review"]))
    request = _fields.decode(fields.pop(FIELD))
    return _encoder.encode([{name: raw for name, raw in request.items() if name != "uid"}, fields]).decode()


def _is_candidate(event: Row) -> bool:
    is_write = event["verb"] in WRITES or event["subresource"] in CONNECTS
    is_known = event["ts"] is not None and REVIEWED not in event["flags"]
    return is_write and is_known and event["stage"] == "ResponseComplete" and bool(event["resource"])


def _place(row: Row) -> tuple[Any, ...]:
    namespace = None if row["resource"] == "namespaces" else row["namespace"]
    return row["api_group"], row["resource"], row["subresource"] or "", namespace or ""


def _near(event: Row, uids: Sequence[str], reviews: dict[str, Row]) -> Sequence[str]:
    """Those of some reviews, in the order of time, that were recorded while a request was under way."""
    apart = CLOCKS_APART if event["stage_ts"] > event["ts"] else _UNTIMED
    begins, ends = event["ts"] - apart, event["stage_ts"] + apart
    low = bisect_left(uids, begins, key=lambda uid: reviews[uid]["ts"])
    return uids[low : bisect_right(uids, ends, lo=low, key=lambda uid: reviews[uid]["ts"])]


class _Told(NamedTuple):
    """What a review says of its request, with the uids and versions of its objects."""

    operation: str
    is_dry: bool
    uids: frozenset[str]
    versions: frozenset[str]


def _told_by(review: Row) -> _Told:
    fields = _fields.decode(review["review"])
    request = _request.decode(fields.pop(FIELD))
    metas = [meta for raw in fields.values() if (meta := _meta_of(raw)) is not None]
    return _Told(
        request.operation,
        request.dry_run is True,
        frozenset(meta.uid for meta in metas if meta.uid),
        frozenset(meta.resource_version for meta in metas if meta.resource_version),
    )


def _meta_of(raw: msgspec.Raw) -> _Meta | None:
    try:
        return _body.decode(raw).metadata
    except msgspec.DecodeError:
        return None


def _fits(event: Row, review: Row, told: _Told) -> bool:
    """Whether nothing that both know of a request differs."""
    is_created = event["code"] == 201 or event["verb"] == "create"
    may_create = event["code"] is None or event["code"] >= 400
    version = event["obj_rv"] or ""
    return (
        _effective(event) == review["user_name"]
        and event["api_version"] in (None, review["api_version"])
        and event["name"] in (None, "", review["name"])
        and (event["subresource"] in CONNECTS if told.operation == "CONNECT" else event["verb"] in _VERBS.get(told.operation, ()))
        and (told.operation != "UPDATE" or not is_created)
        and (told.operation != "CREATE" or is_created or may_create)
        and (not event["obj_uid"] or not told.uids or event["obj_uid"] in told.uids)
        and (event["verb"] != "update" or version in ("", "0", *told.versions) or not told.versions)
        and (event["request_uri"] is None or told.is_dry == _asks_dry_run(event))
    )


def _asks_dry_run(event: Row) -> bool:
    query = event["request_uri"].partition("?")[2]
    in_query = any(part.startswith("dryRun=") and part != "dryRun=" for part in query.split("&"))
    return in_query or (event["verb"].startswith("delete") and '"dryRun":["' in (event["request_object"] or ""))


def _effective(event: Row) -> str | None:
    if event["impersonated_user"] is None:
        name: str | None = event["user_name"]
        return name
    try:
        user = json.loads(event["impersonated_user"])
    except (ValueError, RecursionError):
        return None
    return user.get("username") if isinstance(user, dict) else None


# What the server or the store sets after admission, or at each answer.
_SET_LATER = frozenset(
    (
        *("resourceVersion", "managedFields", "generation", "selfLink", "uid", "creationTimestamp"),
        *("deletionTimestamp", "deletionGracePeriodSeconds"),
    )
)
_anything = msgspec.json.Decoder()


def _contradicts(event: Row, review: Row) -> bool:
    """Whether the log itself shows the whole object of a request, and a review shows another one or calls it a dry run.

    Such a review is of another request, or forged: its sender is not the API server that wrote the log.
    """
    fields = _fields.decode(review["review"])
    is_deletion = event["verb"] in ("delete", "deletecollection")
    if event["verb"] == "deletecollection" or event["subresource"] not in _OF_OBJECT:
        return False
    recorded = _whole(event["response_object"])
    if recorded is None:
        return False
    if _told_by(review).is_dry and event["request_uri"] is None:
        return True
    shown = _whole(bytes(fields.get(OLD_OBJECT if is_deletion else OBJECT, b"null")))
    return shown is None or not _alike(recorded, shown)


def _whole(raw: str | bytes | None) -> dict[str, Any] | None:
    """An object as it was before the store, without what the server sets later; None for a Status, a Table or no object."""
    try:
        body = _anything.decode(raw or b"null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or not isinstance(meta := body.get("metadata"), dict):
        return None
    if body.get("kind") == "Status" or str(body.get("apiVersion")).startswith("meta.k8s.io/"):
        return None
    kept = {name: value for name, value in meta.items() if name not in _SET_LATER}
    return {name: value for name, value in body.items() if name not in ("status", "apiVersion", "kind")} | {"metadata": kept}


def _alike(one: Any, other: Any) -> bool:
    """Whether two values agree wherever redaction removed nothing; nothing, null and empty are one."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(_alike(one.get(name), other.get(name)) for name in one.keys() | other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if any(isinstance(each, str) and is_withheld(each) for each in (one, other)):
        return True
    return one == other or (one in _EMPTY and other in _EMPTY)


_EMPTY: tuple[Any, ...] = (None, "", [], {})


def _merged(event: Row, reviews: Sequence[Row], unclear: str) -> Row:
    """The event with its reviews, and with what they know and it does not."""
    last, uids = reviews[-1], ",".join(row["audit_id"] for row in reviews)
    # Tables derived from events are renewed where flags change, so these say which reviews an event has.
    state = f"{REVIEWED}:{xxhash.xxh3_64_hexdigest(f'{uids} {unclear}'.encode())}"
    taken: Row = {} if unclear in (CANDIDATES, CONTRADICTS) else _told(event, last, uids, unclear)
    notes = [dict(row["notes"]).get(REDACTED, "") for row in (event, *reviews)]
    if found := list(dict.fromkeys(note for text in notes for note in text.split(",") if note)):
        taken["notes"] = _with_marks((event | taken)["notes"], {REDACTED: ",".join(found)})
    redacted = [flag for flag in last["flags"] if flag == "redacted"]
    taken["flags"] = list(dict.fromkeys([*event["flags"], *redacted, REVIEWED, state]))
    before = {name: event[name] for name in {*taken, "notes", "review"}}
    kept = {REVIEWS: list(reviews), BEFORE: before, UNCLEAR: unclear}
    return event | taken | {"review": _encoder.encode(kept).decode()}


def _told(event: Row, last: Row, uids: str, unclear: str) -> Row:
    taken = _user_of(event, last)
    if not event["name"] and event["verb"] != "deletecollection":
        taken["name"] = last["name"]
    taken["api_version"] = event["api_version"] or last["api_version"]
    marks = {REVIEW: uids}
    if not unclear:
        marks |= {key: value for key, value in last["notes"] if key == DRY_RUN}
        taken |= {} if (stored := _stored(event, last)) is None else {"response_object": stored}
    taken["notes"] = _with_marks(event["notes"], marks)
    return taken


def _with_marks(notes: Iterable[tuple[str, str]], marks: dict[str, str]) -> list[tuple[str, str]]:
    return [*((key, value) for key, value in notes if key not in marks), *marks.items()]


def _user_of(event: Row, review: Row) -> Row:
    """The columns of the user that the event lacks. A review knows the effective user alone."""
    if is_withheld(review["user_name"] or "") or (event["user_groups"] and event["impersonated_user"] is None):
        return {}
    if event["impersonated_user"] is None and event["user_name"] == review["user_name"]:
        return {name: review[name] for name in ("user_uid", "user_groups", "user_extra")}
    if event["impersonated_user"] is not None and '"groups"' in event["impersonated_user"]:
        return {}
    extra = msgspec.Raw(review["user_extra"].encode()) if review["user_extra"] else None
    told = {"username": review["user_name"], "uid": review["user_uid"], "groups": review["user_groups"], "extra": extra}
    return {"impersonated_user": _encoder.encode({name: value for name, value in told.items() if value}).decode()}


def _stored(event: Row, review: Row) -> str | None:
    """The object that a request stored, without the resourceVersion that only the store knows; None where that is not sure."""
    is_write = event["verb"] in ("create", "update", "patch") and event["subresource"] in _OF_OBJECT
    is_stored = is_write and event["api_group"] not in _NEVER_STORED and event["resource"] != "bindings"
    raw = _fields.decode(review["review"]).get(OBJECT)
    if not is_stored or event["response_object"] is not None or event["code"] not in range(200, 300) or raw is None:
        return None
    if DRY_RUN in dict(review["notes"]):
        return None
    try:
        fields = _fields.decode(raw)
        metadata = _fields.decode(fields["metadata"])
    except (ValueError, KeyError):
        return None
    metadata.pop("resourceVersion", None)
    fields["metadata"] = msgspec.Raw(_encoder.encode(metadata))
    return _encoder.encode(fields).decode()
