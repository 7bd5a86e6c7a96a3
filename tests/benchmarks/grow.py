"""A larger lake from a recorded one: copies of its events with other audit IDs, times and names of objects.

Every file of the source becomes one file per copy, so that the new lake is cut into files as ingest left the old one. Objects that
policies look up in addition to the request (namespaces, roles, policies) are not copied, and a copy is a few microseconds later
than the one before: so all copies meet the same state of the cluster.

With `--varied` each copy has image tags, values of labels, users and namespaces of its own, as clusters grow. Its namespaces are
copies, too. A design that lives by few distinct values looks linear on plain copies alone.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.lake import Lake

_NAME = '"metadata":{"name":"'
_NAME_WITHIN = 120  # characters from the start of a body: names of nested objects stand later
_COPY_US = 37
_LOOKED_UP = [
    "namespaces", "customresourcedefinitions", "roles", "rolebindings", "clusterroles", "clusterrolebindings",
    "validatingadmissionpolicies", "validatingadmissionpolicybindings",
]  # fmt: skip


# Of the bodies of a varied copy.
_IMAGE = re.compile(r'("image":"[^"@]*?[^"@/]):([^":/@]+)"')
_LABELS = re.compile(r'"(labels|matchLabels)":\{([^{}]*)\}')
_LABEL_VALUE = re.compile(r'":"([^"]{1,50})"')
_NAMESPACE = re.compile(r'("namespace":")([^"]+)"')
_OWN_NAME = re.compile(r'("kubernetes.io/metadata.name":")([^"]+)"')
_NAMESPACE_IN_URI = re.compile(r"(/namespaces/)([^/?]+)")
# Names that the cluster itself gives: every copy has these users and namespaces.
_OF_CLUSTER = re.compile(r"system:(?!serviceaccount:)|kube-|default$")
_SERVICE_ACCOUNT = re.compile(r"system:serviceaccount:([^:]+):(.*)")


def grow(source: Path, target: Path, copies: int, *, varied: bool = False) -> int:
    """Write a new lake with so many copies of the events of another; returns the number of its events."""
    old, new = Lake.open(source), Lake.create(target)
    events = 0
    for file in old.manifest.files("events"):
        table = pq.read_table(source / file.path, partitioning=None)
        for copy in range(copies):
            made = table
            if copy:
                made = _renamed(table.filter(_is_copied(table, varied)), copy)
                made = _varied(made, f"-c{copy}") if varied else made
            events += made.num_rows
            with new.writer() as writer:
                writer.commit(writer.write("events", file.cluster, made))
    old.close()
    new.close()
    return events


def _is_copied(table: pa.Table, varied: bool) -> Any:
    has_namespace, is_looked_up = pc.is_valid(table["namespace"]), pc.is_in(table["resource"], pa.array(_LOOKED_UP))
    copied = pc.and_(has_namespace, pc.invert(is_looked_up))
    if varied:
        copied = pc.or_(copied, pc.equal(table["resource"], "namespaces"))
    return pc.fill_null(copied, False)


def _varied(table: pa.Table, suffix: str) -> pa.Table:
    """Give a copy users, namespaces, images and labels of its own. `_renamed` gave its objects other names before."""
    space = partial(_of_copy, suffix=suffix)
    replaced: dict[str, Callable[[str], str]] = {
        "namespace": space,
        "user_name": partial(_user_of_copy, suffix=suffix),
        "request_uri": lambda text: _NAMESPACE_IN_URI.sub(lambda found: found[1] + _once(found[2], suffix), text),
    }
    bodies: dict[str, Callable[[str], str]] = dict.fromkeys(
        ("request_object", "response_object"), partial(_body_of_copy, suffix=suffix)
    )
    # Policies select namespaces by their labels, so these stay.
    of_namespaces = partial(_namespace_of_copy, suffix=suffix)
    are_namespaces = pc.fill_null(pc.equal(table["resource"], "namespaces"), False).to_pylist()
    for column, change in (replaced | bodies).items():
        texts: list[str | None] = table[column].to_pylist()
        index = table.schema.get_field_index(column)
        made = [
            ((of_namespaces if is_namespace and column in bodies else change)(text) if text else text)
            for text, is_namespace in zip(texts, are_namespaces, strict=True)
        ]
        table = table.set_column(index, table.schema.field(index), pa.array(made, pa.string()))
    return table


def _of_copy(name: str, suffix: str) -> str:
    return name if _OF_CLUSTER.match(name) else f"{name}{suffix}"


def _once(name: str, suffix: str) -> str:
    """The name of a namespace in an URI, which `_renamed` changed already where the request is on the namespace itself."""
    return name if name.endswith(suffix) else _of_copy(name, suffix)


def _user_of_copy(name: str, suffix: str) -> str:
    account = _SERVICE_ACCOUNT.fullmatch(name)
    if account is None:
        return _of_copy(name, suffix)
    return f"system:serviceaccount:{_of_copy(account[1], suffix)}:{account[2]}"


def _namespace_of_copy(text: str, suffix: str) -> str:
    return _OWN_NAME.sub(lambda found: f'{found[1]}{_of_copy(found[2], suffix)}"', text)


def _body_of_copy(text: str, suffix: str) -> str:
    text = _NAMESPACE.sub(lambda found: f'{found[1]}{_of_copy(found[2], suffix)}"', text)
    text = _IMAGE.sub(lambda found: f'{found[1]}:{found[2]}{suffix}"', text)
    return _LABELS.sub(lambda found: f'"{found[1]}":{{{_LABEL_VALUE.sub(lambda value: _labelled(value, suffix), found[2])}}}', text)


def _labelled(value: re.Match[str], suffix: str) -> str:
    return f'":"{value[1]}{suffix}"' if value[1].isascii() and value[1][-1].isalnum() else value[0]


def _renamed(table: pa.Table, copy: int) -> pa.Table:
    suffix, shift = f"-c{copy}", pa.scalar(copy * _COPY_US, pa.duration("us"))
    names: list[str | None] = table["name"].to_pylist()
    uris: list[str | None] = table["request_uri"].to_pylist()
    made: dict[str, Any] = {
        "audit_id": pc.binary_join_element_wise(table["audit_id"], suffix, ""),
        "name": pa.array([f"{name}{suffix}" if name else name for name in names], pa.string()),
        "request_uri": pa.array(
            [uri.replace(f"/{name}", f"/{name}{suffix}") if uri and name else uri for uri, name in zip(uris, names, strict=True)],
            pa.string(),
        ),
        "ts": pc.add(table["ts"], shift),
        "stage_ts": pc.add(table["stage_ts"], shift),
    }
    for column in ("request_object", "response_object"):
        made[column] = pa.array([_renamed_body(text, suffix) for text in table[column].to_pylist()], pa.string())
    for column, values in made.items():
        index = table.schema.get_field_index(column)
        table = table.set_column(index, table.schema.field(index), values)
    return table


def _renamed_body(text: str | None, suffix: str) -> str | None:
    start = text.find(_NAME, 0, _NAME_WITHIN) if text else -1
    if text is None or start < 0:
        return text
    end = text.index('"', start + len(_NAME))
    return f"{text[:end]}{suffix}{text[end:]}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.grow", description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("copies", type=int)
    parser.add_argument("--varied", action="store_true")
    asked = parser.parse_args()
    print(f"{grow(asked.source, asked.target, asked.copies, varied=asked.varied):,} events")
