"""Objects that a cluster of a lake has stored at some time: the expressions in them are no new ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from ingest.errors import InputError
from queries import LakeReader

from ..request import Object

ReadT = TypeVar("ReadT")
_STORED = """
    SELECT DISTINCT recorded_object(response_object, request_object)::VARCHAR AS object FROM events
    WHERE api_group = $api_group AND name = $name AND code < 300 AND coalesce(subresource, '') = ''
        AND recorded_object(response_object, request_object) ->> '$.kind' = $kind
    UNION
    SELECT DISTINCT object::VARCHAR FROM objects WHERE kind = $kind AND name = $name"""


def stored_versions(reader: LakeReader, group: str, kind: str, name: str, read: Callable[[Object, str], ReadT]) -> list[ReadT]:
    """The versions of a cluster-scoped object that answers of API servers, bodies of successful writes or snapshots show.

    `read` makes a version of an object and its source; one that it refuses with InputError is left out.
    """
    found = []
    for (body,) in reader.connection.execute(_STORED, {"api_group": group, "kind": kind, "name": name}).fetchall():
        with suppress(InputError):
            found.append(read(json.loads(body), name))
    return found
