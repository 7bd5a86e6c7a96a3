"""`hindcast watch`: replay events as they arrive, and report the first would-be denial of a policy."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from api.context import Context
from ingest.errors import HindcastError, InputError

from . import replay
from .parts import options

if TYPE_CHECKING:
    from api.checks.watch_metrics import WatchMetrics
    from api.given import Judged, Texts
    from api.work.notify import Receiver
    from pipeline.readiness.model import Fidelity, Status
    from pipeline.readiness.watching import Cursor, FirstDenial, Key, Watch
    from pipeline.runs import Defect


class WatchFormat(StrEnum):
    """One line for each report."""

    TEXT = "text"
    JSON = "json"


def command(
    context: typer.Context,
    policies: options.Policies = None,
    interval: Annotated[float, typer.Option(min=0.05, help="Seconds between two looks at the lake.")] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and stop. The next run goes on from there.")] = False,
    exit_on_denial: Annotated[
        bool, typer.Option("--exit-on-denial", help="Exit with 1 at the first would-be denial of a policy that had none.")
    ] = False,
    cursor: Annotated[
        Path | None, typer.Option(help="The file that records the progress. Default: a file in the lake, named after the policies.")
    ] = None,
    rules: options.Rules = None,
    calibration: Annotated[
        bool, typer.Option("--calibrate/--no-calibrate", help="At the start, measure how far the replay agrees with the record.")
    ] = False,
    kubernetes_version: options.KubernetesVersion = options.DEFAULT_VERSION,
    metrics_port: Annotated[int | None, typer.Option(help="Serve Prometheus metrics on this port of 127.0.0.1; 0: any.")] = None,
    metrics_file: Annotated[Path | None, typer.Option(help="Write Prometheus metrics there, for node_exporter (*.prom).")] = None,
    only_given: Annotated[
        bool, typer.Option("--only", help="The given roles and bindings replace all others in the cluster.")
    ] = False,
    notify: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FORM=URL",
            help="Send first denials and changed verdicts, too: alertmanager=URL, slack=URL, webhook=URL, "
            "or FORM=@FILE; repeatable.",
        ),
    ] = None,
    workers: options.Workers = None,
    output: Annotated[
        WatchFormat, typer.Option("-o", "--output", help="Sentences, or one JSON object per line.")
    ] = WatchFormat.TEXT,
) -> int:
    """Watch a lake: replay events as they arrive, and report verdicts that change and the first would-be denial of a policy.

    Requests, workloads, users and critical subjects are counted as in `hindcast readiness`. Releases, and existing objects
    that were not written, need the whole lake: only `hindcast readiness` has them.
    """
    from api import asked_values
    from api.printing.targets import check_file
    from api.work.notify import Receiver
    from pipeline.readiness.rules import ReadinessRules
    from pipeline.readiness.watching import Watch
    from queries import open_lake

    from .parts.texts import read_texts

    own: Context = context.obj
    version = asked_values.parse_version(kubernetes_version)
    if metrics_file is not None:
        check_file("--metrics-file", metrics_file)
    if cursor is not None:
        check_file("--cursor", cursor, makes_folders=True)
    receivers = tuple(map(Receiver.of, notify or ()))
    texts = read_texts(policies)
    chosen, digest = _watched(own, texts, version, only_given)
    given = ReadinessRules.load(rules) if rules else ReadinessRules()
    fidelity = _agreement(own, texts, chosen, version, workers) if calibration else None
    store = CursorFile(cursor or own.lake / "watch" / f"{digest}.json", digest)
    reader = open_lake(own.lake)
    try:
        count = replay.workers_or_default(own, workers)
        watch = Watch(reader, own.lake, chosen, version, given, fidelity, count, _note(own), only_given)
        _check_names(watch)
        with _published(own, metrics_port, metrics_file) as metrics:
            return _Looks(watch, store, Teller(output, receivers), metrics, metrics_file, exit_on_denial).run(interval, once)
    finally:
        reader.close()


def _watched(own: Context, texts: Texts, version: tuple[int, int], replaces_all: bool) -> tuple[Sequence[Judged], str]:
    """The rules to watch by stage, and a digest of them."""
    from api.given import given_of, say_mistakes, warn_of
    from pipeline.manifests.files import manifests_of
    from pipeline.manifests.writing import to_yaml
    from pipeline.readiness.watching import watched_digest

    given = given_of(texts, version, own.lake)
    warn_of(own, given)
    for stage, rules in given.stages:
        say_mistakes(own, stage, rules, replaces_all)
    watched = to_yaml(each.value for each in manifests_of(texts))
    return given.stages, watched_digest(f"{replaces_all} {watched}", version)


def _agreement(
    own: Context, texts: Texts, chosen: Sequence[Judged], version: tuple[int, int], workers: int | None
) -> dict[str, Fidelity]:
    """How far the replay agrees with the record, by judged thing."""
    from api.given import walk
    from pipeline.readiness.flow import agreement
    from pipeline.runs.window import Window
    from pipeline.stages.stage import Asked
    from queries import open_lake

    found: dict[str, Fidelity] = {}
    walked = walk(own, texts, replay.workers_or_default(own, workers))
    with closing(open_lake(own.lake)) as reader:
        for stage, rules in chosen:
            plan = stage.plan(reader, rules, Asked(Window(), version))
            found |= agreement(reader, stage, plan, walked) or {}
    return found


def _check_names(watch: Watch) -> None:
    """Raise InputError where two stages judge by things of one name, because a watch names only these."""
    for key, count in Counter(watch.watched).items():
        if count > 1:
            raise InputError(f"two stages judge by something named {key[0]}", "watch the manifests of each stage by themselves")


def _note(own: Context) -> Callable[[Iterable[Defect]], None]:
    """Keeps each policy that Hindcast failed to judge once, however often the watch looks. The command then ends with 4."""
    seen: set[tuple[str, str]] = set()

    def note(found: Iterable[Defect]) -> None:
        new = [defect for defect in found if (defect.policy, defect.why) not in seen]
        seen.update((defect.policy, defect.why) for defect in new)
        own.note_defects(new)

    return note


@dataclass(frozen=True)
class CursorFile:
    """The file that keeps a cursor. It is replaced as a whole, so that it is never half written."""

    path: Path
    digest: str

    def read(self) -> Cursor:
        """The kept cursor, or a new one. Raises InputError for a file that holds no cursor."""
        from pipeline.readiness.watching import Cursor

        try:
            return Cursor.of_json(self.path.read_text(encoding="utf-8"), str(self.path), self.digest)
        except FileNotFoundError:
            return Cursor(self.digest)
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"--cursor: {self.path} cannot be read: {error}") from error

    def keep(self, cursor: Cursor) -> None:
        """Keep a cursor. Raises InputError."""
        from ingest.durable import write_whole

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.path, cursor.to_json().encode())
        except OSError as error:
            raise InputError(f"--cursor: {self.path} cannot be written: {error.strerror}", "give another path") from error


@dataclass(frozen=True, slots=True)
class Teller:
    """Writes one line for each event of the watch, flushes at once, and sends it to each receiver."""

    form: WatchFormat
    receivers: Sequence[Receiver] = ()

    def denial(self, news: FirstDenial) -> None:
        """The first would-be denial of a policy."""
        name = _name((news.policy, news.binding))
        place = f"{news.namespace}/{news.workload}" if news.namespace else news.workload
        text = f"first would-be denial of {name}, which was {news.was}: {place} by {news.user}: {news.message} ({news.audit_id})"
        ts = news.ts.isoformat()
        self._line("denial", (news.policy, news.binding), ts, text, asdict(news) | {"ts": ts}, is_news=True)

    def status(self, ts: str, key: Key, status: Status, reasons: tuple[str, ...], *, has_changed: bool) -> None:
        """The verdict on a policy, when it is first known or has changed. Receivers get changes alone."""
        text = f"{_name(key)}: {status}: {reasons[0]}" if reasons else f"{_name(key)}: {status}"
        fields = {"policy": key[0], "binding": key[1], "status": status, "reasons": reasons, "ts": ts}
        self._line("status", key, ts, text, fields, is_news=has_changed)

    def trouble(self, message: str, seconds: float) -> None:
        """Why a look failed. It goes to standard error, because it is not about a policy."""
        sys.stderr.write(f"hindcast: {message}; it looks again every {seconds:g} s\n")
        sys.stderr.flush()

    def _line(self, event: str, key: Key, ts: str, text: str, fields: dict[str, Any], *, is_news: bool) -> None:
        from api.work.notify import News
        from pipeline.report.texts import json_text

        if self.form is WatchFormat.JSON:
            sys.stdout.write(json_text({"event": event, **fields}) + "\n")
        else:
            sys.stdout.write(" ".join(f"{ts} {text}".split()) + "\n")
        sys.stdout.flush()
        for receiver in self.receivers if is_news else ():
            receiver.send(News(event, *key, ts, text, fields))


def _name(key: Key) -> str:
    return f"{key[0]} / {key[1]}" if key[1] else key[0]


class _Looks:
    """Looks at the lake again and again."""

    def __init__(
        self,
        watch: Watch,
        store: CursorFile,
        teller: Teller,
        metrics: WatchMetrics,
        metrics_file: Path | None,
        exit_on_denial: bool,
    ) -> None:
        self._watch, self._store, self._teller = watch, store, teller
        self._metrics, self._metrics_file, self._exit_on_denial = metrics, metrics_file, exit_on_denial
        self._cursor, self._is_stale = store.read(), False
        self._told: dict[Key, Status] = {}
        self._denials = 0
        self._trouble = ""

    def run(self, interval: float, once: bool) -> int:
        """Look until interrupted, or once, or until the first denial if that is asked for."""
        from api.damage import ENGINE_ERRORS, explained
        from api.printing.pipe import has_reader

        # They pass without help, or once the disk has room.
        troubles: tuple[type[Exception], ...] = (HindcastError, *ENGINE_ERRORS)
        while True:
            try:
                is_done = self._look()
            except troubles as error:
                trouble = error if isinstance(error, HindcastError) else explained(error, self._watch.lake)
                if once or trouble is None or _was_interrupted(error):
                    raise
                # The disk may be full, or the lake missing for a moment: the cursor keeps the finished part, and the next look
                # reads the rest.
                if str(trouble) != self._trouble:  # once, instead of at every look
                    self._trouble = str(trouble)
                    self._teller.trouble(self._trouble, interval)
                self._is_stale = True
                time.sleep(interval)
                continue
            self._trouble = ""
            if self._denials and self._exit_on_denial:
                return 1
            if (once and is_done) or not has_reader(sys.stdout):
                return 0
            time.sleep(interval)

    def _look(self) -> bool:
        from ingest.holds import hold_files

        if self._is_stale:  # the part that a failed look had half counted is read again from the kept cursor
            self._cursor, self._is_stale = self._store.read(), False
        with hold_files(self._watch.lake, time.time()):
            is_done = self._watch.look(self._cursor, self._denied, self._store.keep)
        self._tell_verdicts()
        if is_done:
            self._metrics.set(self._watch, self._cursor, time.time())
            if self._metrics_file is not None:
                self._metrics.write(self._metrics_file)
        return is_done

    def _denied(self, news: FirstDenial) -> None:
        self._denials += 1
        self._teller.denial(news)

    def _tell_verdicts(self) -> None:
        for key in self._watch.watched:
            status, reasons = self._watch.status(self._cursor, key)
            told = self._told.get(key)
            if told is not status:
                account = self._cursor.accounts.get(key)
                ts = account.last_ts.isoformat() if account and account.last_ts else "-"
                self._teller.status(ts, key, status, reasons, has_changed=told is not None)
                self._told[key] = status


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether an interruption caused an error: DuckDB ends a query with an error of its own, which others may wrap."""
    import duckdb

    while error is not None:
        if isinstance(error, (KeyboardInterrupt, duckdb.InterruptException)):
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def _published(own: Context, port: int | None, file: Path | None) -> Iterator[WatchMetrics]:
    from api.checks.watch_metrics import HOST, WatchMetrics

    metrics = WatchMetrics()
    server = metrics.serve(port) if port is not None else None
    if server is not None:
        own.tell(f"metrics: http://{HOST}:{server.server_port}/metrics")
    if file is not None:
        own.say(f"metrics: {file}")
    try:
        yield metrics
    finally:
        if server is not None:
            server.shutdown()
            server.server_close()
