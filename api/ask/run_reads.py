"""The questions of the read API and the pages to replay runs: plans, summaries, verdicts, readiness. See reads.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from ingest.errors import EvidenceError
from ingest.lake import Lake
from pipeline.readiness.build import About, build_report
from pipeline.readiness.flow import Made
from pipeline.readiness.report import Report
from pipeline.readiness.rolling import knows_waves, rollouts_of
from pipeline.readiness.rules import ReadinessRules
from pipeline.readiness.sql import dry_runs_kept
from pipeline.runs.window import Window
from pipeline.stages.registry import stage_of
from pipeline.stages.waves import Rollout
from queries import LakeReader
from queries.lake import files_of

from ..asked_values import parse_version
from ..beside_runs import keep_made, kept_cluster, kept_made, kept_rules
from ..stages.runs import rules_of_run
from ..stored_runs import run, run_plan, stored, verdicts_of
from .listing import Listing, Page, Parameters, Source, conditions, holding, keyset_page
from .questions import REQUEST_TEXTS, TIME, SortKey, TimePaging, VerdictFilters, VerdictGrain

# The fields of a verdict's request, in addition to the columns of the verdict.
REQUEST_COLUMNS = ("verb", "api_group", "resource", "subresource", "namespace", "name", "user_name")


def verdicts_page(
    source: Source,
    run_id: str,
    filters: VerdictFilters,
    paging: TimePaging,
    grain: VerdictGrain | None = None,
    find: str = "",
) -> Page:
    """Verdicts of a finished run, with the fields of their requests.

    Columns: those of pipeline.runs.verdict.VERDICTS, then verb, api_group, resource, subresource, namespace, name and user_name of
    the request. `grain` keeps the verdicts as a whole, or those of single expressions; `find` keeps those whose texts contain it.
    Raises NotFoundError, and EvidenceError while the run is not finished.
    """
    verdicts = verdicts_of(source.lake, run_id)
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
    verdicts_of(source.lake, run_id)
    asked = rules or ReadinessRules()
    kept = kept_made(source.lake, run_id)
    if kept is not None and kept.report.rules == asked:
        return kept.report
    fidelity = kept.fidelity if kept is not None else None
    with _reader_of(source, run_id) as reader:
        report = build_report(reader, source.lake, _about(source, run_id), fidelity, asked)
    if rules is None:
        with suppress(OSError):  # a read-only lake computes it again each time
            keep_made(source.lake, Made(report, fidelity))
    return report


def rollout(source: Source, run_id: str, rules: ReadinessRules | None = None) -> list[Rollout]:
    """The way into force of the manifests of a finished run, in waves of namespaces.

    Raises NotFoundError, and EvidenceError for manifests without waves, or of that time.
    """
    verdicts, about = verdicts_of(source.lake, run_id), _about(source, run_id)
    things = about.stage.readiness.words.things
    if not knows_waves(about.stage):
        raise EvidenceError(f"{things} cannot be enforced namespace by namespace", "ask for the readiness of the run")
    given = rules_of_run(source.lake, run_id, about.stage)
    if given is None:
        raise EvidenceError(f"run {run_id} took the {things} of that time", "replay given ones, and ask for their rollout")
    with _reader_of(source, run_id) as reader, dry_runs_kept(reader.connection):
        return rollouts_of(reader, replace(about, given=given), verdicts, rules or ReadinessRules())


def has_waves(source: Source, run_id: str) -> bool:
    """Whether the manifests of a run can be enforced namespace by namespace."""
    stage = stage_of(run(source.lake, run_id).stage)
    with suppress(EvidenceError):
        return knows_waves(stage) and rules_of_run(source.lake, run_id, stage) is not None
    return False


def _about(source: Source, run_id: str) -> About:
    """What a report on a finished run is about."""
    summary, asked = stored(source.lake, run_id).summary, run(source.lake, run_id)
    assert summary is not None
    stage = stage_of(asked.stage)
    given = kept_rules(source.lake, run_id, stage)
    plan = stage.readiness.stored_plan(run_plan(source.lake, run_id), given)
    return About(stage, parse_version(asked.kubernetes_version), Window(asked.since, asked.until), summary, plan, given)


@contextmanager
def _reader_of(source: Source, run_id: str) -> Iterator[LakeReader]:
    """A reader of the one cluster that a run is about, or of the whole lake."""
    cluster = kept_cluster(source.lake, run_id)
    if not cluster:
        yield source.reader
        return
    with closing(Lake.open(source.lake)) as lake, closing(source.reader.narrowed(files_of(lake, cluster))) as reader:
        yield reader
