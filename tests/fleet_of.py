"""A made-up fleet: lakes of many clusters, each varied from one recorded lake by a seed.

Every cluster has uids, audit IDs, workload names, times, and a share of violations of its own. Some have policies or params that
others lack, some record too little to be judged, and one name stands for two clusters.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.lake import Lake

_DAY_US = 86_400_000_000
_POLICIES = ["validatingadmissionpolicies", "validatingadmissionpolicybindings"]
# A policy under test denies images of these registries; the first ones are rewritten to the last in a clean cluster.
_REFUSED, _ALLOWED = r"(quay\.io/someone|docker\.io/library|ghcr\.io/x)/", "registry.corp.example/shop/"
_ADDRESSES = r'"externalIPs":\[[^\]]*\]'
_BODIES = ("request_object", "response_object")
# What a small cluster leaves out: it would add requests that no policy of the tests is about.
_LEFT_OUT = ["events", "endpoints", "endpointslices", "leases", "persistentvolumeclaims", "serviceaccounts", "ipaddresses"]
_WORDS = ("mkt", "store", "desk", "portal", "depot", "lab")


@dataclass(frozen=True, slots=True)
class Member:
    """One cluster of a fleet, by how it differs from the recorded one.

    `violations` is the share of its workloads that keep what the policies refuse. `share` is the share of its workloads that it
    has at all. `level` is that of its audit policy. `holds_two`: a second cluster writes under the same name.
    """

    name: str
    number: int
    violations: float = 0.0
    share: float = 1.0
    level: str = "RequestResponse"
    minor: str = "1.36"
    upgraded_from: str = ""
    days: float = 21.0
    has_policies: bool = True
    limit: int = 0  # the params of the recorded policy `replica-limit`; 0: as recorded
    message: str = ""  # replaces a message of a recorded policy
    holds_two: bool = False


@dataclass(frozen=True, slots=True)
class Clock:
    """The times of the recorded cluster, in microseconds since 1970, and how those of another follow from them."""

    first_us: int
    span_us: int

    @classmethod
    def of(cls, events: pa.Table) -> Clock:
        """The clock of some events."""
        found = pc.min_max(events["stage_ts"].cast(pa.int64()))
        return cls(found["min"].as_py(), found["max"].as_py() - found["min"].as_py())

    def moved(self, column: Any, member: Member, copy: int) -> Any:
        """Times within the days of a member, an hour later for each number, and those of copies some microseconds apart."""
        shift_us = self.first_us + member.number * 3_600_000_000 + copy * 37
        since = pc.subtract(column.cast(pa.int64()), self.first_us).cast(pa.float64())
        moved = pc.cast(pc.multiply(since, member.days * _DAY_US / self.span_us), pa.int64(), safe=False)
        return pc.add(moved, shift_us).cast(column.type)


def members(count: int, seed: int = 7) -> list[Member]:
    """The clusters of a fleet: the first are the odd ones, the others clean or with a share of violations."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        kind = ("prod", "stage", "dev")[chance.randrange(3)]
        name = f"{kind}-{('eu', 'us', 'ap')[chance.randrange(3)]}-{number:02}"
        member = Member(name, number, share=chance.uniform(0.75, 1.0), days=chance.uniform(15, 24))
        found.append(replace(member, **_odd(number, chance)))
    return found


def _odd(number: int, chance: random.Random) -> dict[str, Any]:
    """How a cluster is odd; about two thirds are not."""
    match number:
        case 0:
            return {"holds_two": True}
        case 1:
            return {"level": "Metadata"}
        case 2:
            return {"days": 2.0}
        case 3:
            return {"upgraded_from": "1.35"}
        case 4:
            return {"minor": "1.35", "message": "too many replicas for this cluster"}
        case 5:
            return {"limit": 3}
        case 6 | 7 | 8 | 9:
            return {"violations": (1.0, 0.5, 0.25, 0.1)[number - 6]}
        case _ if number % 5 == 0:
            return {"has_policies": False}
    return {"violations": 0.3} if chance.random() < 0.15 else {}


def make_fleet(
    source: Path, target: Path, fleet: list[Member], copies: int = 1, only_small: bool = True, done: Callable[[str], None] = print
) -> int:
    """Write a lake of all clusters of a fleet from the one cluster of `source`; returns the number of events.

    `only_small` leaves out resources that the policies of the tests are not about. `copies` repeats the workloads of each cluster.
    """
    old, new = Lake.open(source), Lake.create(target)
    files = [pq.read_table(source / file.path, partitioning=None) for file in old.manifest.files("events")]
    objects = [pq.read_table(path, partitioning=None) for path in old.files("objects")]
    whole, events = pa.concat_tables(files), 0
    clock = Clock.of(whole)
    if only_small:
        whole = whole.filter(_is_kept(whole))
    for member in fleet:
        with new.writer() as writer:
            for table in _tables(whole, clock, member, copies):
                events += table.num_rows
                writer.commit(writer.write("events", member.name, table))
            if member.level == "RequestResponse":
                listed = _with(_objects(pa.concat_tables(objects), clock, member), "cluster", member.name)
                writer.commit(writer.write("objects", member.name, listed))
        done(member.name)
    old.close()
    new.close()
    return events


def _tables(whole: pa.Table, clock: Clock, member: Member, copies: int) -> Iterator[pa.Table]:
    twins = [member, replace(member, number=member.number + 500)] if member.holds_two else [member]
    for twin in twins:
        for copy in range(copies):
            yield _with(_varied(whole, clock, twin, copy), "cluster", member.name)


def _is_kept(table: pa.Table) -> Any:
    reads = pc.is_in(table["verb"], pa.array(["get", "list", "watch"]))
    status = pc.fill_null(pc.equal(table["subresource"], "status"), False)
    dropped = pc.or_(pc.or_(reads, status), pc.is_in(table["resource"], pa.array(_LEFT_OUT)))
    return pc.invert(pc.fill_null(dropped, False))


def _varied(table: pa.Table, clock: Clock, member: Member, copy: int) -> pa.Table:
    table = _some(table, member.share, member.number * 131 + copy)
    if copy:
        table = table.filter(pc.and_(pc.is_valid(table["namespace"]), pc.invert(pc.is_in(table["resource"], pa.array(_POLICIES)))))
    if not member.has_policies or member.violations < 1:
        table = _without_failures(table)
    if not member.has_policies:
        table = table.filter(pc.invert(pc.is_in(table["resource"], pa.array(_POLICIES))))
    table = _bodies(table, _rewrites(member, copy))
    if member.level == "Metadata":
        for name in _BODIES:
            table = _with(table, name, None)
        table = _with(table, "level", "Metadata")
    suffix = f"-{member.number:03}{copy or ''}"
    table = _put(table, "audit_id", pc.binary_join_element_wise(table["audit_id"], suffix, ""))
    table = _put(table, "obj_uid", _own_uids(table["obj_uid"], member))
    table = _put(table, "user_agent", _servers(table, member))
    for name in ("ts", "stage_ts"):
        table = _put(table, name, clock.moved(table[name], member, copy))
    return table


def _rewrites(member: Member, copy: int) -> list[tuple[str, str]]:
    """The replacements in bodies, as regular expressions."""
    found = [(r'"uid":"[0-9a-f]{4}', f'"uid":"{member.number:04x}')]
    found.append((r'"(web|cart|search|checkout|tbl|report|ledger)-', rf'"\1{_WORDS[member.number % len(_WORDS)]}{copy or ""}-'))
    if member.violations < 1:
        # A workload keeps its registry if the first letter of its image is among the first of the alphabet.
        letters = chr(ord("a") + int(member.violations * 26))
        kept = f"[{letters}-z]" if member.violations else "[a-z]"
        found += [(rf"{_REFUSED}({kept})", rf"{_ALLOWED}\2"), (_ADDRESSES, '"externalIPs":[]')]
    if member.limit:
        found.append((r'"maxReplicas":"\d+"', f'"maxReplicas":"{member.limit}"'))
    if member.message:
        found.append(("too few replicas", member.message))
    return found


def _some(table: pa.Table, share: float, seed: int) -> pa.Table:
    """The events of a share of the workloads; those of other objects all."""
    names: list[str | None] = table["name"].to_pylist()
    spaces: list[str | None] = table["namespace"].to_pylist()
    chosen: dict[str, bool] = {}
    kept = []
    for name, space in zip(names, spaces, strict=True):
        stem = "-".join((name or "").split("-")[:2])
        if space and stem and stem not in chosen:
            chosen[stem] = random.Random(f"{seed} {stem}").random() < share
        kept.append(chosen.get(stem, True) if space else True)
    return table.filter(pa.array(kept))


def _without_failures(table: pa.Table) -> pa.Table:
    """Without the outcomes that policies had: they would be others in a cluster with other images."""
    denied = pc.fill_null(pc.match_substring(table["status_message"], "ValidatingAdmissionPolicy"), False)
    table = table.filter(pc.invert(denied))
    maps: list[Any] = table["annotations"].to_pylist()
    cleaned = [[(key, value) for key, value in each if not key.startswith("validation.policy")] for each in maps]
    table = _put(table, "annotations", pa.array(cleaned, table.schema.field("annotations").type))
    return _put(table, "vap_failures", pa.array([[]] * table.num_rows, table.schema.field("vap_failures").type))


def _bodies(table: pa.Table, rewrites: list[tuple[str, str]]) -> pa.Table:
    for name in _BODIES:
        column = table[name]
        for pattern, text in rewrites:
            column = pc.replace_substring_regex(column, pattern, text)
        table = _put(table, name, column)
    pattern, text = rewrites[1]
    plain, own = pattern.replace('"', "(?:^|/)", 1), text.replace('"', "/", 1)
    for name in ("name", "request_uri"):
        table = _put(table, name, pc.replace_substring_regex(table[name], plain, own))
    return _put(table, "name", pc.replace_substring_regex(table["name"], "^/", ""))


def _own_uids(column: Any, member: Member) -> Any:
    return pc.replace_substring_regex(column, "^[0-9a-f]{4}", f"{member.number:04x}")


def _servers(table: pa.Table, member: Member) -> Any:
    """The user agents of the control plane, of the minor before in the first half of its own requests if it was upgraded."""
    newer = pc.replace_substring_regex(table["user_agent"], r"(kube-[a-z-]+)/v1\.36", rf"\1/v{member.minor}")
    if not member.upgraded_from:
        return newer
    older = pc.replace_substring_regex(table["user_agent"], r"(kube-[a-z-]+)/v1\.36", rf"\1/v{member.upgraded_from}")
    own = pc.cumulative_sum(pc.starts_with(table["user_agent"], "kube-apiserver/").cast(pa.int64()), skip_nulls=True)
    return pc.if_else(pc.less_equal(own, pc.divide(pc.max(own), 2)), older, newer)


def _objects(table: pa.Table, clock: Clock, member: Member) -> pa.Table:
    column = table["object"]
    for pattern, text in _rewrites(member, 0):
        column = pc.replace_substring_regex(column, pattern, text)
    table = _put(table, "observed_ts", clock.moved(table["observed_ts"], member, 0))
    return _put(_put(table, "object", column), "uid", _own_uids(table["uid"], member))


def _with(table: pa.Table, name: str, value: str | None) -> pa.Table:
    return _put(table, name, pa.array([value] * table.num_rows, table.schema.field(name).type))


def _put(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), values)
