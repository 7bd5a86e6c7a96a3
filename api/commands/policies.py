"""The policies of a command: those of files, those that the log shows in force, or files over the log's bindings."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from api.context import Context
from ingest.errors import EvidenceError, InputError

if TYPE_CHECKING:
    from pipeline.policies.compile import CompiledExpression
    from pipeline.policies.model import Policy, PolicySet
    from queries import LakeReader


STDIN = Path("-")
_STDIN_NAME = "standard input"
_KINDS_SHOWN = 3
_NAMES_SHOWN = 3


def chosen_policies(
    own: Context, paths: list[Path] | None, moment: str | None, cluster: str | None, version: tuple[int, int]
) -> PolicySet:
    """The policies of `paths`, of the log as of `moment`, or both.

    Where there are both, files win. Their policies take missing bindings from the log, and their bindings take missing policies.
    Raises InputError when nothing is given or a file's expression does not compile, EvidenceError when the log has no policy then.
    """
    return chosen_texts(own, read_texts(paths) if paths or moment is None else [], moment, cluster, version)


def chosen_texts(
    own: Context,
    texts: Sequence[tuple[str, str]],
    moment: str | None,
    cluster: str | None,
    version: tuple[int, int],
    *,
    are_stored: bool = False,
) -> PolicySet:
    """The same of named texts. Those that `are_stored` are not written, such as the version before a change."""
    if moment is not None and not texts:
        return _bound(_recorded(own, moment, cluster), moment)
    recorded = None if moment is None else _recorded(own, moment, cluster)
    return checked_policies(own, texts, version, recorded, are_stored=are_stored)


def checked_policies(
    own: Context,
    texts: Sequence[tuple[str, str]],
    version: tuple[int, int],
    recorded: PolicySet | None = None,
    *,
    are_stored: bool = False,
) -> PolicySet:
    """The policies of named texts, over those of the log. Prints which bindings have no effect. Raises InputError as
    chosen_policies."""
    given = parse_policies(texts, recorded)
    refuse_uncompilable(given, version, own.lake, are_stored=are_stored)
    names = {policy.name for policy in given.policies}
    for binding in given.bindings:
        if binding.policy_name not in names:
            own.warn(f"{binding.source}: {binding.name} binds {binding.policy_name}, which -f does not give: it has no effect")
    return given


def _joined(given: PolicySet, recorded: PolicySet) -> PolicySet:
    from pipeline.policies.model import PolicySet

    named, bound = {policy.name for policy in given.policies}, {binding.policy_name for binding in given.bindings}
    policies = tuple(policy for policy in recorded.policies if policy.name in bound - named)
    bindings = tuple(binding for binding in recorded.bindings if binding.policy_name in named - bound)
    return PolicySet(given.policies + policies, given.bindings + bindings, given.objects, written=given.written)


def _recorded(own: Context, moment: str, cluster: str | None) -> PolicySet:
    from pipeline.stages.validating.recorded import policies_as_of
    from queries import open_lake

    reader = open_lake(own.lake)
    try:
        return policies_as_of(reader, *moment_of(reader, moment, cluster))
    finally:
        reader.close()


def _bound(found: PolicySet, moment: str) -> PolicySet:
    """The policies that were in force: one that nothing bound did nothing. Raises EvidenceError if none was bound."""
    bound = {binding.policy_name for binding in found.bindings}
    policies = tuple(policy for policy in found.policies if policy.name in bound)
    if not policies:
        names = ", ".join(policy.name for policy in found.policies)
        raise EvidenceError(
            f"no policy was bound at {moment}, and a policy without a binding does nothing: {names}",
            "give another time, or give the policies as files with -f",
        )
    return replace(found, policies=policies)


def moment_of(reader: LakeReader, moment: str, cluster: str | None) -> tuple[str, datetime]:
    """The cluster and the time of --from-log and --against-log. Raises InputError where several clusters may be meant."""
    from api import asked_values

    now = datetime.now(UTC)
    clusters = [name for (name,) in reader.sql("SELECT DISTINCT cluster FROM events ORDER BY cluster").fetchall()]
    if cluster is None and len(clusters) != 1:
        raise InputError(f"the lake has the clusters {', '.join(clusters) or 'none'}", "say with --cluster which one is meant")
    return cluster or clusters[0], asked_values.parse_time("the time of the log's policies", moment, now) or now


def read_texts(paths: list[Path] | None) -> list[tuple[str, str]]:
    """The name and the text of each file, and of standard input. Raises InputError without paths, and for unreadable files."""
    if not paths:
        raise InputError("no policies are given", "give files or folders with -f")
    texts = list(_texts(paths))
    if not texts:
        raise InputError(f"{', '.join(map(str, paths))}: found no YAML or JSON file", "give the files of the policies with -f")
    return texts


def parse_policies(texts: Sequence[tuple[str, str]], recorded: PolicySet | None = None) -> PolicySet:
    """The policies of named texts, over those of the log. Raises InputError where the texts hold no policy."""
    from pipeline.stages.validating.load import parse_policy_set

    found = parse_policy_set(texts)
    if recorded is not None:
        found = _joined(found, recorded)
    if not found.policies:
        names = [name for name, _ in texts]
        more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
        raise InputError(
            f"{', '.join(names[:_NAMES_SHOWN])}{more}: found no ValidatingAdmissionPolicy{_in_place(found)}", _instead(found)
        )
    return found


def _instead(found: PolicySet) -> str:
    """What to do with files that have no policy: another command reads them, or none does."""
    from pipeline.stages.registry import STAGES

    kinds = {(str(given.object.get("apiVersion")).partition("/")[0], given.object.get("kind")) for given in found.objects}
    others = [stage for stage in STAGES if any((kind.group, kind.kind) in kinds for kind in stage.kinds)]
    if others:
        things = " and ".join(stage.readiness.words.things for stage in others)
        return f"`hindcast replay -f` and `hindcast readiness -f` judge {things}"
    return f"Hindcast replays {', '.join(sorted({kind.kind for stage in STAGES for kind in stage.kinds}))}"


def _in_place(found: PolicySet) -> str:
    """The kinds of the objects in the files, if these are not policies."""
    counted = Counter(f"{given.object.get('kind')} of {given.object.get('apiVersion')}" for given in found.objects)
    counted += Counter({"ValidatingAdmissionPolicyBinding": len(found.bindings)})
    kinds = ", ".join(f"{count} {kind}" for kind, count in counted.most_common(_KINDS_SHOWN))
    return f", but {kinds}" if kinds else ""


def _texts(paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    from pipeline.manifests.files import text_of, texts_of

    for is_stdin, group in groupby(dict.fromkeys(paths), key=lambda path: path == STDIN):
        if is_stdin:
            yield _STDIN_NAME, text_of(sys.stdin.buffer.read(), _STDIN_NAME)
        else:
            yield from texts_of(group)


def posted_policies(text: str, version: tuple[int, int], lake: Path) -> PolicySet:
    """The policies of a posted text. Raises InputError for policies that an API server would reject, and without any policy."""
    from pipeline.stages.validating.load import parse_policy_set

    from ..posted import check_posted

    check_posted(text)
    found = parse_policy_set([("policies", text)])
    if not found.policies:
        raise InputError(
            "policies: found no ValidatingAdmissionPolicy", "send manifests of admissionregistration.k8s.io/v1 as YAML or JSON"
        )
    refuse_uncompilable(found, version, lake)
    return found


def refuse_uncompilable(
    policies: PolicySet, version: tuple[int, int], lake: Path | None = None, *, are_stored: bool = False
) -> None:
    """Raise InputError with file and line of every expression that does not compile: an API server would reject such a policy.

    Expressions that a cluster of the lake has stored in the policy of that name compile with the CEL of stored expressions.
    """
    from pipeline.policies.refusing import refuse_errors, refused_expressions

    errors: list[CompiledExpression] = []
    for policy in policies.policies:
        known = partial(_itself, policy) if are_stored else partial(stored_policies, lake, policy.name)
        errors += refused_expressions(policy, version, known)
    refuse_errors([(each.source, each.error) for each in errors])


def _itself(policy: Policy) -> tuple[Policy, ...]:
    return (policy,)


def stored_policies(lake: Path | None, name: str) -> tuple[Policy, ...]:
    """The versions of a policy that answers of API servers or snapshots show; none without a lake."""
    from pipeline.manifests.stored import stored_versions
    from pipeline.stages.validating.decode import GROUP, POLICY, policy_from_object

    with open_if_there(lake) as reader:
        return () if reader is None else tuple(stored_versions(reader, GROUP, POLICY, name, policy_from_object))


@contextmanager
def open_if_there(lake: Path | None) -> Iterator[LakeReader | None]:
    """A reader of a lake; None without a lake."""
    from queries import open_lake

    if lake is None or not (lake / "manifest.sqlite").exists():
        yield None
        return
    with closing(open_lake(lake)) as reader:
        yield reader


def only(policies: PolicySet, names: set[str]) -> PolicySet:
    """Those of the policies that have one of these names, with their bindings."""
    from pipeline.policies.model import PolicySet

    kept = tuple(policy for policy in policies.policies if policy.name in names)
    bindings = tuple(binding for binding in policies.bindings if binding.policy_name in names)
    return PolicySet(kept, bindings, policies.objects, written=policies.written)
