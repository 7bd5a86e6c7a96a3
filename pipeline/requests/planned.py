"""The planned classes of requests as a table of the reader's SQL."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from queries import LakeReader

from .classes import RequestClass
from .kept.records import NONE, Keeping, Unit
from .lanes import LaneName, lane_name


def register_classes(
    reader: LakeReader, classes: Iterable[RequestClass], keeping: Keeping, touched: pa.Array[Any] = NONE
) -> list[LaneName]:
    """Make the planned classes known to the reader's SQL, as a table `planned_classes`. Returns them by their number in it.

    `keeping` says which of their requests are not read, because they are kept, or only for the objects in `touched`.
    """
    old_objects: dict[LaneName, bool] = {}
    for item in classes:
        key = lane_name(item)
        old_objects[key] = old_objects.get(key, False) or item.reads_old_object
    columns: dict[str, pa.Array[Any]] = {
        name: pa.array([key[position] for key in old_objects], pa.string()) for position, name in enumerate(LaneName._fields)
    }
    columns |= {
        "class": pa.array(range(len(old_objects)), pa.int32()),
        "reads_old_object": pa.array(old_objects.values(), pa.bool_()),
        "reads_plain": pa.array([_reading(Unit(*key, True), keeping) for key in old_objects], pa.string()),
        "reads_others": pa.array([_reading(Unit(*key, False), keeping) for key in old_objects], pa.string()),
    }
    for name, table in (("planned_classes", pa.table(columns)), ("touched", pa.table({"object": touched}))):
        reader.connection.register("given", table)
        reader.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM given")
        reader.connection.unregister("given")
    return list(old_objects)


def _reading(unit: Unit, keeping: Keeping) -> str:
    """Which requests of a unit are read, as planned.sql names it."""
    if unit not in keeping.covers:
        return "all"
    return "touched" if unit in keeping.renews else "none"
