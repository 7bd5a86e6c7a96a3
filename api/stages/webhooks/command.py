"""`hindcast webhooks`: what recorded webhooks did, the load of webhooks, and an outage of their servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from api.commands.parts import options
from api.context import Context
from api.printing.output import Format
from ingest.errors import InputError

if TYPE_CHECKING:
    from api.printing.output import Table
    from pipeline.runs.window import Window
    from pipeline.stages.over_time import OverTime
    from pipeline.stages.stage import Asked
    from pipeline.stages.webhooks import Configuration
    from pipeline.stages.webhooks.load import Loads
    from pipeline.stages.webhooks.model import Rules
    from queries import LakeReader


_TWO_TIMES = "give two times, as 2026-11-21T03:00:00Z..2026-11-21T04:00:00Z"


class Question(StrEnum):
    """What to ask about webhooks."""

    DID = "did"
    LOAD = "load"
    DOWN = "down"
    MIGRATE = "migrate"
    WITHOUT = "without"


# The questions about one webhook.
_ABOUT_ONE = frozenset({Question.MIGRATE, Question.WITHOUT})


def command(
    context: typer.Context,
    question: Annotated[
        Question,
        typer.Argument(
            help="did: what recorded webhooks did; load: calls per second, by cause; down: what an outage of their servers breaks; "
            "migrate: compare a webhook with the policies of -f; without: what requests would have met without a webhook."
        ),
    ] = Question.DID,
    name: Annotated[str, typer.Argument(help="Of migrate and without: WEBHOOK or CONFIGURATION/WEBHOOK.", show_default=False)] = "",
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "-f", "--filename", help="Webhook configurations; without them those of the log. Of migrate and without: policies."
        ),
    ] = None,
    since: options.Since = None,
    until: options.Until = None,
    kubernetes_version: options.KubernetesVersion = options.DEFAULT_VERSION,
    latency_ms: Annotated[
        float | None, typer.Option(min=0, help="How long a webhook takes to answer: load then shows the calls in flight.")
    ] = None,
    down: Annotated[
        str | None,
        typer.Option(metavar="FROM..TO", help="The time of the outage, two times in RFC 3339. Default: the whole window."),
    ] = None,
    webhook: Annotated[list[str] | None, typer.Option(help="Only this webhook is down; repeatable.")] = None,
    page: Annotated[
        Path | None, typer.Option("--report-file", metavar="FILE.html", help="Also write load or down as a page with charts.")
    ] = None,
    limit: options.Limit = None,
    output: options.Output = Format.TABLE,
) -> int:
    """Show what each admission webhook did, as far as it left a trace: calls, changes, denials and failures.

    A validating webhook that admits leaves no trace. `load` and `down` replay webhooks over the recorded requests. `without NAME`
    says which calls, denials and changes would be gone without a webhook, and what follows from that.
    """
    from api import asked_values
    from api.commands.parts.window import check_window
    from api.printing.output import render
    from api.printing.targets import check_file
    from api.stages.mutating.migrate import migrate_mutating, mutating_rules
    from api.stages.webhooks.migrate import migrate
    from api.stages.webhooks.without import without_webhook
    from pipeline.runs.window import Window
    from pipeline.stages.stage import Asked

    own: Context = context.obj
    window = Window(*asked_values.parse_window(since, until))
    check_window(own, window)
    if bool(name) is not (question in _ABOUT_ONE):
        if name:
            raise InputError(f"`{question}` takes no webhook name, found {name!r}", "leave it out")
        raise InputError(f"`{question}` needs a webhook name", "list them with `hindcast webhooks`")
    if page is not None:
        check_file("--report-file", page)
    asked = Asked(window, asked_values.parse_version(kubernetes_version))
    if question is Question.DID:
        tables = _did(own, window)
    elif question is Question.WITHOUT:
        tables = without_webhook(own, name, files or (), asked)
    elif question is Question.MIGRATE:
        rules = mutating_rules(files or (), asked.kubernetes_version)
        tables = migrate(own, name, files or (), asked) if rules is None else migrate_mutating(own, name, rules, asked)
    else:
        replayed = _Replayed(own, files, asked)
        try:
            tables = replayed.down(down, webhook or (), page) if question is Question.DOWN else replayed.load(latency_ms, page)
        finally:
            replayed.reader.close()
    render(tables, output, limit=limit)
    return 0


def _did(own: Context, window: Window) -> list[Table]:
    from api.stages.webhooks.tables import behaviour_table, latency_table
    from pipeline.stages.webhooks.behaviour import behaviour, traced
    from pipeline.stages.webhooks.latency import latencies
    from queries import open_lake

    reader = open_lake(own.lake)
    try:
        found = behaviour_table(behaviour(reader, window), traced(reader, window))
        return [found, latency_table(latencies(reader, window))]
    finally:
        reader.close()


class _Replayed:
    """A replay of webhooks, and what a user may ask of it. The reader stays open for the questions."""

    def __init__(self, own: Context, files: Sequence[Path] | None, asked: Asked) -> None:
        from api.given import use_until_end
        from pipeline.runs import RunKind, RunStore
        from pipeline.stages.registry import WEBHOOKS
        from pipeline.stages.webhooks.model import AsRecorded
        from queries import open_lake

        self._own = own
        self._asked = asked
        self._rules: Rules = _configurations(files, asked.kubernetes_version) if files else AsRecorded.RULES
        reader = open_lake(own.lake)
        try:
            plan = WEBHOOKS.plan(reader, self._rules, asked)
        finally:
            reader.close()
        stored = RunStore(own.lake).run(plan.run_id)
        with own.progress("replaying webhooks") as step, stored.owned():
            WEBHOOKS.run(plan, own.lake, 1, step, RunKind.REPLAY)
            use_until_end(stored)
        self._verdicts = stored.verdicts
        self.reader: LakeReader = open_lake(own.lake, files=plan.files)

    def load(self, latency_ms: float | None, page: Path | None) -> list[Table]:
        """The load of the webhooks."""
        from api.stages.webhooks.load import load_tables
        from pipeline.stages.webhooks.load import loads
        from pipeline.stages.webhooks.over_time import calls_over_time

        found = loads(self.reader, self._verdicts, self._asked.window, latency_ms)
        tables = load_tables(found, latency_ms, self._words)
        self._write(page, [calls_over_time(found), *tables])
        return tables

    def down(self, text: str | None, only: Sequence[str], page: Path | None) -> list[Table]:
        """What an outage breaks."""
        from api.stages.webhooks.load import load_tables, outage_tables
        from pipeline.stages.webhooks.load import loads
        from pipeline.stages.webhooks.outage import outage
        from pipeline.stages.webhooks.over_time import calls_over_time, outage_over_time

        found = loads(self.reader, self._verdicts, self._asked.window)
        since, until = _outage_of(text, found)
        rules = self._rules_at(found, until)
        _check_names(only, rules)
        broken = outage(self.reader, self._verdicts, rules, since, until, only)
        words = f"from {since:%Y-%m-%dT%H:%M:%SZ} until {until:%Y-%m-%dT%H:%M:%SZ}"
        tables = outage_tables(broken, words, [self._words, *self._of_the_end(found, rules, until)])
        load = [calls_over_time(found), *load_tables(found, None, self._words)]
        self._write(page, [*load, outage_over_time(broken), *tables])
        return [*tables, *self._locks(rules, found)]

    def _write(self, path: Path | None, parts: Sequence[Table | OverTime | None]) -> None:
        """Write the page of --report-file."""
        from api.printing.page import page as page_of

        if path is not None:
            path.write_text(page_of("Load of webhooks", parts), encoding="utf-8")
            self._own.say(f"page: {path}")

    @property
    def _words(self) -> str:
        """Which webhooks the requests meet."""
        from pipeline.stages.webhooks.model import AsRecorded

        if isinstance(self._rules, AsRecorded):
            return "each request meets the webhooks that the log shows in force at its time"
        return "each request meets the given webhooks, whichever were in force at its time"

    def _of_the_end(self, found: Loads, rules: Sequence[Configuration], until: datetime) -> Iterator[str]:
        """Which configurations decide how an outage ends, and whose calls are therefore left out."""
        from ingest.counted import counted
        from pipeline.stages.webhooks.model import AsRecorded

        if not isinstance(self._rules, AsRecorded):
            return
        yield f"failurePolicy and timeouts are those in force at the end of the outage, {until:%Y-%m-%dT%H:%M:%SZ}"
        names = {(each.name, hook.name) for each in rules for hook in each.webhooks}
        gone = [each for each in found.webhooks if (each.configuration, each.webhook) not in names]
        if gone:
            calls = sum(each.calls for each in gone)
            yield (
                f"left out: {counted(calls, 'call')} of {counted(len(gone), 'webhook')} not in force "
                f"then, such as {gone[0].webhook}"
            )

    def _rules_at(self, found: Loads, until: datetime) -> tuple[Configuration, ...]:
        """The given configurations, or those of the log at the end of an outage."""
        from ingest.counted import counted
        from pipeline.stages.webhooks.as_of import configurations_as_of
        from pipeline.stages.webhooks.model import AsRecorded

        if not isinstance(self._rules, AsRecorded):
            return self._rules
        clusters = [(cluster, min(last, until)) for cluster, (_, last) in found.spans.items()]
        if len(clusters) != 1:
            raise InputError(f"the lake has {counted(len(clusters), 'cluster')}", "give the webhooks with -f")
        at_end = configurations_as_of(self.reader, *clusters[0])
        self._own.leave_out(at_end.left)
        return at_end.rules

    def _locks(self, rules: tuple[Configuration, ...], found: Loads) -> list[Table]:
        from api.stages.webhooks.load import lock_tables
        from pipeline.stages.webhooks import Chain
        from pipeline.stages.webhooks.as_of import world_as_of
        from pipeline.stages.webhooks.needs import reaching_system, self_locks

        chain = Chain(rules, self._asked.kubernetes_version)
        tables: list[Table] = []
        for cluster, (_, until) in found.spans.items():
            world = world_as_of(self.reader, cluster, until)
            tables = lock_tables(list(self_locks(chain, world)), list(reaching_system(chain, world)))
        return tables


def _configurations(files: Sequence[Path], version: tuple[int, int]) -> tuple[Configuration, ...]:
    from api.commands.parts.texts import read_texts
    from pipeline.manifests.files import manifests_of
    from pipeline.policies.refusing import refuse_errors
    from pipeline.stages.registry import WEBHOOKS
    from pipeline.stages.webhooks.model import AsRecorded

    found = WEBHOOKS.read(manifests_of(read_texts(list(files))))
    if isinstance(found, AsRecorded) or not found:
        named = ", ".join(map(str, files))
        raise InputError(f"{named}: found no webhook configuration", "give a Validating- or MutatingWebhookConfiguration")
    refuse_errors(WEBHOOKS.readiness.uncompilable(found, version))
    return found


def _outage_of(text: str | None, found: Loads) -> tuple[datetime, datetime]:
    """The time of an outage: that of `--down`, or of all requests."""
    from api import asked_values

    if text is None:
        ends = list(found.spans.values())
        if not ends:
            raise InputError("the lake holds no request", "ingest an audit log first")
        return min(since for since, _ in ends), max(until for _, until in ends) + timedelta(microseconds=1)
    now = datetime.now(UTC)
    first, separator, last = text.partition("..")
    if not separator:
        raise InputError(f"--down: {text!r} is not FROM..TO", _TWO_TIMES)
    since, until = asked_values.parse_time("--down", first, now), asked_values.parse_time("--down", last, now)
    if since is None or until is None or since >= until:
        raise InputError(f"--down: {first!r} is not before {last!r}", _TWO_TIMES)
    return since, until


def _check_names(only: Sequence[str], rules: Sequence[Configuration]) -> None:
    names = {hook.name for each in rules for hook in each.webhooks}
    if missing := [name for name in only if name not in names]:
        raise InputError(f"--webhook {missing[0]!r}: no given webhook has this name", f"choose of {', '.join(sorted(names)[:5])}")
