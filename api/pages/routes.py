"""The pages' addresses. Each page is one question to the lake, answered as HTML; errors are HTML, too."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import RedirectResponse, Response

from api.stages.cost_page import cost_view
from api.stages.pages import is_of_policies
from ingest.errors import HindcastError
from pipeline.readiness.rules import ReadinessRules
from pipeline.stages.names import DEFAULT as DEFAULT_STAGE

from .. import stored_runs
from ..ask import fleet_reads, run_reads
from ..ask.asking import Asker
from ..ask.kept import report_of, rollout_of
from ..ask.questions import Names
from ..ask.run_removal import in_use_error, remove_runs
from ..ask.waiting import PAGE_SECONDS, in_time
from ..beside_runs import Label, keep_label
from ..errors import BusyError, NotFoundError
from ..state import Asking, Explaining, Working
from ..work.explanations import Explanations, StageName
from ..work.jobs import Order
from . import evidence, fleet, of_stage, overview
from .html import STATIC_TYPES, address, page, static_file
from .lists import Wanted, recorded_list, verdict_list
from .policy import policy_view
from .report import report_page
from .requests import RequestView, request_tables, request_view, with_explanation
from .rollout import FOLDER, rollout_view
from .routing import Asks, Selected, page_router
from .selection import Text
from .tables import Asked, file_of
from .trial import read_fields

_CHOICES_MAX = 200
After = Annotated[str | None, Query(max_length=4_000)]

router = page_router()


@dataclasses.dataclass(frozen=True, slots=True)
class Choices:
    """The proposals for the fields of a form: the lake's clusters, and names of policies."""

    clusters: Sequence[str]
    policies: Sequence[str]


async def choices(asker: Asker, policies: Iterable[str]) -> Choices:
    """The clusters of the lake, next to the policies that a page knows."""
    found = await asker.ask(overview.extent)
    return Choices([row["cluster"] for row in found.clusters], list(policies)[:_CHOICES_MAX])


def _pages(request: Request, after: str | None = "") -> str:
    """The same list from another row on; empty without such a row."""
    if after is None:
        return ""
    given = {name: value for name, value in request.query_params.items() if name != "after"}
    return address(request.url.path, **given, after=after)


@router.get("/")
async def show_overview(request: Request, asker: Asking, selection: Selected, asked: Asks) -> Response:
    """Show every policy that was tried, with its newest verdict."""
    found = await overview.overview(asker, datetime.now(UTC), selection, asked)
    if asked.form:
        return file_of(found["tables"], asked)
    names = sorted({name for run in found["runs"] for name in run.policies})
    return page(request, "overview.html.j2", section="/", selection=selection, choices=await choices(asker, names), **found)


@router.get("/runs")
async def show_runs(request: Request, asker: Asking, asked: Asks, policy: Text = "") -> Response:
    """Show every replay of the lake, or those that tried a policy, with their kind and window."""
    found = await asyncio.to_thread(stored_runs.runs, asker.lake)
    kept = [run for run in found if not policy or policy in run.policies]
    runs = overview.runs_table(asked, kept)
    if asked.form:
        return file_of({"replays": runs}, asked)
    return page(request, "runs.html.j2", section="/", runs=runs, policy=policy)


@router.get("/runs/{run_id}")
async def show_run(request: Request, asker: Asking, asked: Asks, selection: Selected, run_id: str) -> Response:
    """Show one replay: the verdicts on its policies, and the requests that it left out."""
    if not await _is_reported(asker, run_id):
        return page(request, "waiting.html.j2", section="/", run_id=run_id)
    of_policies = is_of_policies(stored_runs.run(asker.lake, run_id))
    found = await asker.ask(overview.run_overview if of_policies else of_stage.stage_overview, run_id, asked, selection)
    if asked.form:
        return file_of(found["tables"], asked)
    template = "run.html.j2" if of_policies else "stage_run.html.j2"
    return page(request, template, section="/", words=of_stage.WORDS, question=of_stage.question_of(found["run"]), **found)


@router.post("/runs/{run_id}/label")
async def label_run(request: Request, asker: Asking, run_id: str) -> Response:
    """Name a replay, and say whether it is kept."""
    stored_runs.run(asker.lake, run_id)
    fields = await read_fields(request)
    label = Label(fields.get("name", ""), bool(fields.get("is_kept")))
    await asyncio.to_thread(keep_label, asker.lake, run_id, label)
    return RedirectResponse(f"/runs/{run_id}", 303)


@router.get("/runs/{run_id}/remove")
async def ask_to_remove(request: Request, asker: Asking, run_id: str) -> Response:
    """Ask whether to remove a replay."""
    return page(request, "remove.html.j2", section="/", run=stored_runs.run(asker.lake, run_id))


@router.post("/runs/{run_id}/remove")
async def remove_run(asker: Asking, run_id: str) -> Response:
    """Remove a replay. One that a replay or a report uses stays."""
    _, in_use = await asyncio.to_thread(remove_runs, asker.lake, [run_id])
    if in_use:
        raise in_use_error(in_use)
    return RedirectResponse("/", 303)


@router.get("/runs/{run_id}/report")
async def show_report(asker: Asking, run_id: str, rule: Names = []) -> Response:  # noqa: B006  # FastAPI copies it
    """Show the readiness report of one replay, as `hindcast readiness -o html` writes it."""
    report = await asker.ask(run_reads.readiness, run_id, ReadinessRules.written(rule, "rule") if rule else None)
    return await asyncio.to_thread(report_page, report)


@router.get("/runs/{run_id}/rollout")
async def show_rollout(request: Request, asker: Asking, asked: Asks, run_id: str) -> Response:
    """Show where the manifests of one replay can be enforced today, and what the other namespaces wait for."""
    run = await asyncio.to_thread(stored_runs.run, asker.lake, run_id)
    found = await in_time(asker, f"rollout {run_id}", partial(rollout_of, run_id=run_id))
    if found is None:
        return page(request, "waiting.html.j2", section="/", run_id=run_id)
    shown = rollout_view(found, run, (await asker.ask(overview.extent)).last_ts, asked)
    if asked.form:
        return file_of(shown["tables"], asked)
    return page(request, "rollout.html.j2", section="/", folder=FOLDER, **shown)


@router.get("/runs/{run_id}/policy")
async def show_policy(
    request: Request,
    asker: Asking,
    working: Working,
    selection: Selected,
    asked: Asks,
    run_id: str,
    policy: Text,
    binding: Text = "",
) -> Response:
    """Show one (policy, binding) of a replay, with everything behind its verdict."""
    if not await _is_reported(asker, run_id):
        return page(request, "waiting.html.j2", section="/", run_id=run_id)
    view = await asker.ask(policy_view, run_id, policy, binding or None, selection, asked)
    cost = None
    if is_of_policies(view.run):
        cost = await asyncio.to_thread(cost_view, asker.lake, run_id, policy, binding or None, working.counting(run_id), asked)
    if asked.form:
        return file_of({**view.tables, **(cost.tables if cost is not None else {})}, asked)
    values = {field.name: getattr(view, field.name) for field in dataclasses.fields(view)}
    return page(request, "policy.html.j2", section="/", choices=await choices(asker, ()), cost=cost, **values)


@router.post("/runs/{run_id}/costs")
async def count_costs(request: Request, asker: Asking, working: Working, run_id: str, policy: Text, binding: Text = "") -> Response:
    """Start to count the costs of a replay's policies, unless a job is already counting them."""
    await asyncio.to_thread(stored_runs.run, asker.lake, run_id)
    job = working.counting(run_id)
    if job is None or job.is_over:
        reader = request.scope.get("state", {}).get("reader")
        working.start(Order(costs_of=run_id), reader.name if reader else "anyone")
    return RedirectResponse(f"{overview.policy_address(run_id, policy, binding or None)}#cost", 303)


async def _is_reported(asker: Asker, run_id: str) -> bool:
    """Whether the report of a finished replay is kept, or was made in time; the report of a large replay takes minutes."""
    if not stored_runs.run(asker.lake, run_id).finished:
        return True  # the page then shows the error
    return await in_time(asker, run_id, partial(report_of, run_id=run_id)) is not None


@router.get("/runs/{run_id}/requests")
async def show_requests(
    request: Request,
    asker: Asking,
    selection: Selected,
    asked: Asks,
    run_id: str,
    binding: Text = "",
    outcome: Text = "deny",
    user: Text = "",
    after: After = None,
) -> Response:
    """List the requests behind a figure, filtered."""
    wanted = Wanted(selection, binding, outcome, user)
    run = stored_runs.run(asker.lake, run_id)
    found = await asker.ask(verdict_list, run_id, wanted, asked, after)
    if asked.form:
        return file_of({found.table.name: found.table}, asked)
    policy = selection.policy
    return page(
        request,
        "requests.html.j2",
        section="/",
        run=run,
        wanted=wanted,
        found=found,
        choices=await choices(asker, run.policies),
        policy_href=overview.policy_address(run_id, policy, binding or None, selection) if policy else "",
        next=_pages(request, found.next),
        first=_pages(request) if after else "",
    )


@router.get("/runs/{run_id}/request")
async def show_replayed_request(
    request: Request,
    asker: Asking,
    explaining: Explaining,
    asked: Asks,
    run_id: str,
    audit_id: Text,
    cluster: Text = "",
    policy: Text = "",
) -> Response:
    """Show one request with its verdicts in a replay, and their reasons."""
    views = await asker.ask(request_view, run_id, cluster, audit_id, policy)
    return await _request_page(request, explaining, views, asked, "/")


@router.get("/request")
async def show_request(
    request: Request,
    asker: Asking,
    explaining: Explaining,
    asked: Asks,
    cluster: Text,
    audit_id: Text,
    stage: StageName = DEFAULT_STAGE,
) -> Response:
    """Show one request as the log has it, and the verdicts of the policies, webhooks or mutating policies in force."""
    views = await asker.ask(request_view, None, cluster, audit_id, "", stage)
    return await _request_page(request, explaining, views, asked, "/violations")


async def _request_page(
    request: Request, explaining: Explanations, views: list[RequestView], asked: Asked, section: str
) -> Response:
    tables = request_tables(views, asked)
    if asked.form:
        return file_of(tables, asked)
    return page(request, "request.html.j2", section=section, views=await _explained(explaining, views), tables=tables)


async def _explained(explaining: Explanations, views: list[RequestView]) -> list[RequestView]:
    """The requests with their explanations, if these are ready in time."""
    return await asyncio.gather(*(_with_explanation(explaining, view) for view in views))


async def _with_explanation(explaining: Explanations, view: RequestView) -> RequestView:
    if not view.is_awaited:
        return view
    try:
        found = await explaining.in_time(view.question, PAGE_SECONDS)
    except BusyError:
        return view  # the next load of the page asks again
    except HindcastError as error:
        hint = f"; {error.hint}" if error.hint else ""
        return dataclasses.replace(view, trouble=f"There is no explanation: {error.message}{hint}.", is_awaited=False)
    return view if found is None else await asyncio.to_thread(with_explanation, view, found)


@router.get("/violations")
async def show_violations(
    request: Request,
    asker: Asking,
    selection: Selected,
    asked: Asks,
    kind: Text = "violations",
    binding: Text = "",
    user: Text = "",
    after: After = None,
) -> Response:
    """List the clusters' own records, filtered."""
    wanted = Wanted(selection, binding, "", user, kind)
    found = await asker.ask(recorded_list, wanted, asked, after)
    if asked.form:
        return file_of({found.table.name: found.table}, asked)
    return page(
        request,
        "violations.html.j2",
        section="/violations",
        wanted=wanted,
        found=found,
        choices=await choices(asker, await overview.recorded_policies(asker)),
        next=_pages(request, found.next),
        first=_pages(request) if after else "",
    )


@router.get("/evidence")
async def show_evidence(request: Request, asker: Asking, selection: Selected, asked: Asks) -> Response:
    """Show the lost evidence, and the quality of the rest."""
    view = await evidence.evidence_view(asker, datetime.now(UTC), selection, asked)
    if asked.form:
        return file_of(view.tables, asked)
    return page(request, "evidence.html.j2", section="/evidence", view=view, selection=selection, choices=await choices(asker, ()))


@router.get("/fleets")
async def show_fleets(request: Request, asker: Asking, asked: Asks) -> Response:
    """List the kept reports on the fleet."""
    found = fleet.fleets_table(await asyncio.to_thread(fleet_reads.fleets, asker.lake), asked)
    if asked.form:
        return file_of({found.name: found}, asked)
    clusters = await asyncio.to_thread(fleet_reads.lake_clusters, asker)
    return page(request, "fleets.html.j2", section="/fleets", fleets=found, clusters=clusters)


@router.get("/fleets/{fleet_id}")
async def show_fleet(request: Request, asker: Asking, asked: Asks, fleet_id: str) -> Response:
    """Show one report: which manifest is ready in which cluster, and where to begin."""
    report = await asyncio.to_thread(fleet_reads.fleet, asker.lake, fleet_id)
    runs = await asyncio.to_thread(fleet_reads.kept_runs, asker.lake, report)
    found = fleet.fleet_view(report, runs, asked)
    if asked.form:
        return file_of(found["tables"], asked)
    return page(request, "fleet.html.j2", section="/fleets", **found)


@router.get("/static/{name}")
async def show_static(name: str, v: Text = "") -> Response:
    """Return the style or the script; `v` is a digest of the content."""
    if name not in STATIC_TYPES:
        raise NotFoundError(f"there is no file {name!r}")
    return static_file(name)
