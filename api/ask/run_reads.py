"""The questions of the read API and the pages to replay runs: plans, summaries, verdicts, readiness. See reads.py."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, get_type_hints

from ingest.errors import EvidenceError, InputError
from ingest.lake import Lake
from pipeline.admission.policies.verdict import STAGE
from pipeline.readiness.build import About, build_report
from pipeline.readiness.of_stage import stage_report
from pipeline.readiness.report import Report
from pipeline.readiness.rules import ReadinessRules
from pipeline.replay import ReplayPlan
from pipeline.replay.plan import AS_RECORDED
from pipeline.runs import RunKind, RunStore, RunSummary, StoredRun
from pipeline.runs.window import Window
from pipeline.stages.registry import stage_of
from queries import LakeReader
from queries.lake import files_of

from ..beside_runs import keep_report, kept_cluster, kept_fidelity, kept_policies, kept_report, kept_rules
from ..commands.parts.options import parse_version
from ..errors import NotFoundError
from .listing import Listing, Page, Parameters, Source, conditions, holding, keyset_page
from .questions import REQUEST_TEXTS, TIME, SortKey, TimePaging, VerdictFilters, VerdictGrain

# The fields of a verdict's request, in addition to the columns of the verdict.
REQUEST_COLUMNS = ("verb", "api_group", "resource", "subresource", "namespace", "name", "user_name")
_RULE_MAX = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Run:
    """One replay run in the lake. `finished` is False if it was interrupted or is still running; then it has no summary.

    `kind` is one of pipeline.runs.RunKind, and `asked_ts` is when it was last requested as that kind. A run of an earlier
    version of Hindcast has kept neither, and counts as a replay if policies were given. `versions` are digests of each given policy
    with its bindings and, if it takes params, the given objects; equal digests are one version. `stage` is that of the manifests.
    """

    run_id: str
    stage: str
    finished: bool
    kind: str
    planned_ts: datetime
    asked_ts: datetime
    kubernetes_version: str
    since: datetime | None
    until: datetime | None
    policies: tuple[str, ...]
    versions: Mapping[str, str]
    requests: int
    summary: RunSummary | None


def runs(lake: Path) -> list[Run]:
    """All runs of the lake, the latest planned first."""
    found = [run for run in map(_read_run, RunStore(lake).every()) if run is not None]
    return sorted(found, key=lambda run: (run.planned_ts, run.run_id), reverse=True)


def run(lake: Path, run_id: str) -> Run:
    """One run. Raises NotFoundError."""
    found = _read_run(_stored(lake, run_id))
    if found is None:
        raise _no_such_run(run_id)
    return found


def run_plan(lake: Path, run_id: str) -> dict[str, Any]:
    """The plan of a run as its plan.json holds it, with the policies in full. Raises NotFoundError."""
    try:
        plan: dict[str, Any] = json.loads(_stored(lake, run_id).plan_text)
    except FileNotFoundError:
        raise _no_such_run(run_id) from None
    return plan


def verdicts_page(
    source: Source,
    run_id: str,
    filters: VerdictFilters,
    paging: TimePaging,
    grain: VerdictGrain | None = None,
    find: str = "",
) -> Page:
    """Verdicts of a finished run, with the fields of their requests.

    Columns: those of pipeline.replay.VERDICTS, then verb, api_group, resource, subresource, namespace, name and user_name of the
    request. `grain` keeps the verdicts as a whole, or those of single expressions; `find` keeps those whose texts contain it.
    Raises NotFoundError, and EvidenceError while the run is not finished.
    """
    verdicts = _verdicts(source.lake, run_id)
    parameters = Parameters()
    file = f"read_parquet({parameters.bind(str(verdicts))})"
    of_request = filters.model_copy(update={name: [] for name in VerdictFilters.model_fields if name not in ("namespace", "user")})
    of_verdict = filters.model_copy(update={"namespace": [], "user": []})
    where = conditions(of_verdict, parameters)
    where += [_GRAINS[grain]] if grain is not None else []
    requests = conditions(of_request, parameters)
    if len(requests) > 1:
        where.append(_of_request(" AND ".join(requests)))
    if find:
        of_request_texts = _of_request(holding(find, REQUEST_TEXTS, parameters))
        where.append(f"({holding(find, _VERDICT_TEXTS, parameters)} OR {of_request_texts})")
    listing = Listing(
        question=f"verdicts/{run_id}",
        keys=_VERDICT_KEYS,
        narrow=f"{file} AS v",
        # Find the rows first, and only then their requests: a join of all verdicts with all requests would need a sort.
        wide=f"SELECT v.* FROM {file} AS v",
        where=where,
        timed=file,
    )
    page = keyset_page(source, listing, parameters, paging, paging.limit)
    return replace(page, rows=_with_requests(source, page))


def _of_request(condition: str) -> str:
    """The condition that a verdict's request fulfils another condition."""
    same = " AND ".join(f"r.{name} = v.{name}" for name in ("cluster", "audit_id", "ts"))
    return f"EXISTS (FROM requests AS r WHERE {same} AND {condition})"


_VERDICT_TEXTS = ("policy", "binding", "message", "why", "audit_id")
_GRAINS: Mapping[VerdictGrain, str] = {
    VerdictGrain.REQUEST: "expression_index IS NULL",
    VerdictGrain.EXPRESSION: "expression_index IS NOT NULL",
}
_VERDICT_KEYS = (
    TIME,
    SortKey("cluster"),
    SortKey("audit_id"),
    SortKey("pass", int),
    SortKey("policy"),
    SortKey("coalesce(binding, '')"),
    SortKey("coalesce(param_namespace, '')"),
    SortKey("coalesce(param_name, '')"),
    SortKey("coalesce(expression_index, -1)", int),
)


def _with_requests(source: Source, page: Page) -> Any:
    """The rows of a page with the fields of their requests added, in the same order."""
    times, about = page.rows["ts"], ", ".join(REQUEST_COLUMNS)
    parameters = Parameters()
    bounds = [parameters.bind(moment) for moment in _span(times.to_pylist())]
    ids = parameters.bind(page.rows["audit_id"].unique().to_pylist())
    connection = source.reader.connection
    connection.register("page_rows", page.rows.append_column("page_row", [list(range(page.rows.num_rows))]))
    try:
        text = (
            f"WITH asked AS (SELECT cluster, audit_id, ts, {about} FROM requests WHERE ts >= {bounds[0]} AND ts <= {bounds[1]} "
            f"AND list_contains({ids}, audit_id)) "
            "SELECT * EXCLUDE (page_row) FROM page_rows LEFT JOIN asked USING (cluster, audit_id, ts) ORDER BY page_row"
        )
        return connection.sql(text, params=parameters.values).to_arrow_table()
    finally:
        connection.unregister("page_rows")


def _span(times: list[Any]) -> tuple[datetime, datetime]:
    return (min(times), max(times)) if times else (datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC))


def readiness(source: Source, run_id: str, rules: ReadinessRules | None = None) -> Report:
    """The readiness report of a finished run: the kept one, or a new one if no report under these rules is kept.

    Raises NotFoundError, EvidenceError.
    """
    _verdicts(source.lake, run_id)
    asked = rules or ReadinessRules()
    found = kept_report(source.lake, run_id, asked)
    if found is not None:
        return found
    summary = _stored(source.lake, run_id).summary
    assert summary is not None
    fidelity, asked_run = kept_fidelity(source.lake, run_id), run(source.lake, run_id)
    with _reader_of(source, run_id) as reader:
        if asked_run.stage == STAGE:
            plan = stored_plan(source.lake, run_id)
            report = build_report(reader, source.lake, plan, summary, fidelity, asked)
        else:
            stage = stage_of(asked_run.stage)
            about = About(
                stage.name,
                stage.readiness.words,
                parse_version(asked_run.kubernetes_version),
                Window(asked_run.since, asked_run.until),
            )
            given = kept_rules(source.lake, run_id, stage)
            report = stage_report(reader, source.lake, stage, about, summary, fidelity, asked, given=given)
    if rules is None:
        with suppress(OSError):  # a read-only lake computes it again each time
            keep_report(source.lake, report, fidelity)
    return report


@contextmanager
def _reader_of(source: Source, run_id: str) -> Iterator[LakeReader]:
    """A reader of the one cluster that a run is about, or of the whole lake."""
    cluster = kept_cluster(source.lake, run_id)
    if not cluster:
        yield source.reader
        return
    with closing(Lake.open(source.lake)) as lake, closing(source.reader.narrowed(files_of(lake, cluster))) as reader:
        yield reader


def stored_plan(lake: Path, run_id: str) -> ReplayPlan:
    """The unchanged plan of a run of policies, which are None if they were not kept next to it.

    Raises NotFoundError, and EvidenceError for a run of another stage.
    """
    document = run_plan(lake, run_id)
    if _stage_of(document) != STAGE:
        raise EvidenceError(
            f"run {run_id} is of stage {document['stage']}, and has no policies", "ask for its verdicts and its readiness"
        )
    return ReplayPlan.of_document(document, kept_policies(lake, run_id))


def rules_of(given: Sequence[str]) -> ReadinessRules:
    """The default rules with some numbers replaced, each written `NAME=NUMBER`. Raises InputError."""
    kinds = {name: kind for name, kind in get_type_hints(ReadinessRules).items() if kind in (int, float)}
    values: dict[str, Any] = {}
    for text in given:
        name, _, number = text.partition("=")
        if name not in kinds:
            raise InputError(
                f"rule: no number among the rules is named {ascii(name)[:60]}", f"name one of {', '.join(sorted(kinds))}"
            )
        try:
            values[name] = kinds[name](number)
        except ValueError:
            raise InputError(f"rule: {name} is {ascii(number)[:60]}, wanted {kinds[name].__name__}", f"such as {name}=1") from None
        if not 0 <= values[name] <= _RULE_MAX or (name == "confidence" and not 0 < values[name] < 1):
            raise InputError(f"rule: {name} is {number[:60]}, which is out of range")
    return ReadinessRules(**values)


def _stored(lake: Path, run_id: str) -> StoredRun:
    """Raises NotFoundError for an invalid run id, so that a caller's text never becomes a path."""
    try:
        return RunStore(lake).run(run_id)
    except ValueError:
        raise _no_such_run(run_id) from None


def _no_such_run(run_id: str) -> NotFoundError:
    return NotFoundError(f"the lake has no run {ascii(run_id)[:60]}", "`hindcast runs list` and the page `/runs` list them")


def _verdicts(lake: Path, run_id: str) -> Path:
    found = run(lake, run_id)
    if not found.finished:
        raise EvidenceError(f"run {run_id} is not finished", "follow its replay, or start it again: it goes on where it stopped")
    return _stored(lake, run_id).verdicts


def _read_run(stored: StoredRun) -> Run | None:
    """A run, or None without a plan (yet)."""
    planned_ns = stored.planned_ns
    if planned_ns is None:
        return None
    head = dict(_plan_head(stored.folder, planned_ns))
    took_what_was_bound = head.pop("took_what_was_bound")
    asked = stored.asked_ns() or {RunKind.CALIBRATION if took_what_was_bound else RunKind.REPLAY: planned_ns}
    kind, ns = next(iter(asked.items()))
    summary = stored.summary
    return Run(summary=summary, finished=summary is not None, kind=str(kind), asked_ts=_time(ns), **head)


@lru_cache(maxsize=512)
def _plan_head(folder: Path, planned_ns: int) -> dict[str, Any]:
    """The few fields of a plan that a list shows; the plan of a large lake has megabytes, and never changes."""
    document = json.loads(StoredRun(folder).plan_text)
    return {
        "run_id": folder.name,
        "planned_ts": _time(planned_ns),
        "kubernetes_version": document["kubernetes_version"],
        "since": _moment(document["window"]["since"]),
        "until": _moment(document["window"]["until"]),
        "policies": tuple(sorted({entry["policy"] for entry in document["bindings"]})),
        "stage": _stage_of(document),
        "versions": _versions(document.get("policies", "")) or _whole_version(document),
        "took_what_was_bound": document.get("policies") == AS_RECORDED,
        "requests": document["requests"],
    }


def _stage_of(document: Mapping[str, Any]) -> str:
    """The stage of a plan. Plans from before there were several stages replay policies."""
    stage: str = document.get("stage", STAGE)
    return stage


def _versions(given: Mapping[str, Any] | str) -> dict[str, str]:
    """The version of each policy of a plan; empty if the plan used the policies bound at the time."""
    if isinstance(given, str):
        return {}
    found = {}
    for policy in given["policies"]:
        bindings = [item for item in given["bindings"] if item["policy_name"] == policy["name"]]
        params = given["objects"] if policy["param_kind"] else []
        text = json.dumps([policy, bindings, params], sort_keys=True)
        found[policy["name"]] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return found


def _whole_version(document: Mapping[str, Any]) -> dict[str, str]:
    """The version of each judged thing of a plan of another stage: that of all its manifests."""
    text = json.dumps(document.get("manifests"), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {entry["policy"]: digest for entry in document["bindings"]} if "manifests" in document else {}


def _time(ns: int) -> datetime:
    return datetime.fromtimestamp(ns / 1e9, UTC)


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
