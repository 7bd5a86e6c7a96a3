"""Which policies a command is about: those of files, or those that the log shows in force, or files over the log's bindings."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from api.context import Context
from ingest.errors import InputError
from pipeline.admission.policies import PolicySet, parse_policy_set, refused_expressions
from pipeline.admission.policies.load import texts_of
from pipeline.replay import policies_as_of
from queries import open_lake

from . import options

STDIN = Path("-")


def chosen_policies(
    own: Context, paths: list[Path] | None, moment: str | None, cluster: str | None, version: tuple[int, int]
) -> PolicySet:
    """The policies of `paths`, of the log as of `moment`, or both: then files win, and take from the log the bindings they lack.

    Raises InputError when nothing is given or a file's expression does not compile, EvidenceError when the log has no policy then.
    """
    if moment is None:
        given = read_policies(paths)
        refuse_uncompilable(given, version)
        return given
    recorded = _recorded(own, moment, cluster)
    if not paths:
        return recorded
    given = read_policies(paths)
    refuse_uncompilable(given, version)
    unbound = {policy.name for policy in given.policies} - {binding.policy_name for binding in given.bindings}
    inherited = tuple(binding for binding in recorded.bindings if binding.policy_name in unbound)
    return PolicySet(given.policies, given.bindings + inherited, given.objects)


def _recorded(own: Context, moment: str, cluster: str | None) -> PolicySet:
    now = datetime.now(UTC)
    reader = open_lake(own.lake)
    try:
        clusters = [name for (name,) in reader.sql("SELECT DISTINCT cluster FROM events ORDER BY cluster").fetchall()]
        if cluster is None and len(clusters) != 1:
            raise InputError(
                f"the lake has the clusters {', '.join(clusters) or 'none'}", "say with --cluster whose policies are meant"
            )
        return policies_as_of(reader, cluster or clusters[0], options.parse_time("--from-log", moment, now) or now)
    finally:
        reader.close()


def read_policies(paths: list[Path] | None) -> PolicySet:
    """The policies of files, folders and standard input. Raises InputError where there is none."""
    if not paths:
        raise InputError("no policies are given", "give files or folders with -f")
    found = parse_policy_set(chain.from_iterable(map(_texts, dict.fromkeys(paths))))
    if not found.policies:
        raise InputError(
            f"{', '.join(map(str, paths))}: found no ValidatingAdmissionPolicy",
            "policies are admissionregistration.k8s.io/v1 or v1beta1",
        )
    return found


def _texts(path: Path) -> Iterable[tuple[str, str]]:
    return [("standard input", sys.stdin.read())] if path == STDIN else texts_of([path])


def refuse_uncompilable(policies: PolicySet, version: tuple[int, int]) -> None:
    """Raise InputError with file and line of every expression that does not compile: an API server would not take such a policy."""
    errors = [item for policy in policies.policies for item in refused_expressions(policy, version)]
    if errors:
        raise InputError("\n".join(f"{item.source}: {item.error}" for item in errors))


def only(policies: PolicySet, names: set[str]) -> PolicySet:
    """Those of the policies that have one of these names, with their bindings."""
    kept = tuple(policy for policy in policies.policies if policy.name in names)
    return PolicySet(kept, tuple(binding for binding in policies.bindings if binding.policy_name in names), policies.objects)
