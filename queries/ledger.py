"""The meaning of each kind of row in the view `losses`, and the remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from .lake import LakeReader


class Severity(StrEnum):
    """How sure it is that evidence is gone. Only `lost` fails a gate."""

    LOST = "lost"  # it was recorded or sent, and is missing or incomplete here
    POSSIBLE = "possible"  # something may be missing; the log alone cannot tell
    WITHHELD = "withheld"  # the audit policy or the redaction leaves it out, on purpose or not
    NOTE = "note"  # nothing is missing, but an answer may be less exact


@dataclass(frozen=True, slots=True)
class LossKind:
    """`found` follows a count of `unit`; `means` and `action` are sentences for the reader of a report."""

    severity: Severity
    unit: str
    found: str
    means: str
    action: str

    def counted(self, count: int) -> str:
        """The count with its meaning, as a sentence without a full stop."""
        return f"{count:,} {self.unit} {self.found}"


_TIME = pa.timestamp("us", tz="UTC")
# Those of the view `losses`.
_COLUMNS: Mapping[str, pa.DataType] = {
    "cluster": pa.string(),
    "kind": pa.string(),
    "count": pa.int64(),
    "first_ts": _TIME,
    "last_ts": _TIME,
    "detail": pa.string(),
}


def losses_by_part(reader: LakeReader) -> pa.Table:
    """The rows of the view `losses`, in its order, queried one part after another, because together they take several times the
    memory.

    Reads the whole lake, bodies included: about ten seconds for millions of events.
    """
    found = pa.Table.from_pylist(
        [row for part in LOSS_PARTS for row in reader.rows(f"FROM losses_of_{part}()")], pa.schema(_COLUMNS)
    )
    return found.sort_by([("cluster", "ascending"), ("kind", "ascending"), ("count", "descending"), ("detail", "ascending")])


def loss_caveats(losses: pa.Table) -> tuple[str, ...]:
    """The caveats of a verdict over a lake with these rows of `losses`: one sentence for each kind of missing evidence, the surest
    loss first.

    Kinds without missing evidence (Severity.NOTE) are left out.
    """
    counts: Counter[str] = Counter()
    for loss in losses.to_pylist():
        counts[loss["kind"]] += loss["count"]
    found = [(LOSS_KINDS[kind], count) for kind, count in sorted(counts.items()) if LOSS_KINDS[kind].severity is not Severity.NOTE]
    found.sort(key=lambda entry: list(Severity).index(entry[0].severity))
    return tuple(f"{kind.counted(count)}: {kind.means}" for kind, count in found)


def loss_answer(found: Iterable[tuple[Severity, str]]) -> str:
    """What a ledger says on the whole, in one sentence without a full stop: the same on every page and in every command.

    `found` has the severity and the sentence of each row, over all ledgers that the reader was shown. It says that no loss is known
    only where nothing is lost, perhaps lost or withheld.
    """
    of: dict[Severity, list[str]] = {severity: [] for severity in Severity}
    for severity, sentence in found:
        of[severity].append(sentence)
    worst = next((each for each in (Severity.LOST, Severity.POSSIBLE, Severity.WITHHELD) if of[each]), None)
    if worst is None:
        return "no loss is known"
    first, *others = of[worst]
    parts = [f"{_ANSWERS[worst]}: {first}"]
    if others:
        parts.append(f"and {len(others):,} more {'kind' if len(others) == 1 else 'kinds'}")
    if worst is Severity.LOST and of[Severity.POSSIBLE]:
        parts.append(f"perhaps lost: {len(of[Severity.POSSIBLE]):,} more {'kind' if len(of[Severity.POSSIBLE]) == 1 else 'kinds'}")
    if worst is not Severity.WITHHELD and of[Severity.WITHHELD]:
        parts.append(f"and evidence is withheld: {of[Severity.WITHHELD][0]}")
    return "; ".join(parts)


_ANSWERS = {
    Severity.LOST: "evidence was lost",
    Severity.POSSIBLE: "evidence may be lost",
    Severity.WITHHELD: "no loss is known, but evidence is withheld",
}
# Each part has a macro `losses_of_PART`.
LOSS_PARTS = ("bodies", "fields", "sources", "versions", "answers", "clocks", "silences", "deliveries", "batches", "quarantine")

LOSS_KINDS: Mapping[str, LossKind] = {
    "never_posted": LossKind(
        Severity.LOST,
        "requests",
        "are in a log file and were never posted by the webhook",
        "the webhook lost them, and other losses like these leave no trace where no log file is read; an event that cannot be "
        "encoded takes its whole batch along, and is itself in neither",
        "keep the log backend next to the webhook and ingest its files; look in kube-apiserver's log for batches that failed",
    ),
    "lost_batch": LossKind(
        Severity.LOST,
        "batches",
        "were dropped whole: the log file has ten or more events in a row, and not one of them was posted",
        "either the sink was out of reach, or refused, for the minutes in which the API server repeats a batch; or the batch held "
        "an event that the API server cannot encode, mostly an apply sent as YAML: no log has that event",
        "kube-apiserver's log has the error after `Error in audit plugin 'webhook'`: with an outage keep the sink up or raise "
        "--audit-webhook-initial-backoff; with an encoding error record such patches at level Metadata",
    ),
    "never_logged": LossKind(
        Severity.POSSIBLE,
        "requests",
        "were posted by the webhook and are in no log file of that time",
        "nothing is missing in the lake; the log file is incomplete, or other API servers wrote these",
        "ingest the log files of every API server",
    ),
    "quarantined": LossKind(
        Severity.LOST,
        "records",
        "could not be taken as events",
        "no view and no verdict includes them",
        "`hindcast quarantine --show` shows each record with its reason",
    ),
    "truncated": LossKind(
        Severity.LOST,
        "requests",
        "lost their bodies because the event was too large",
        "policies on them are unknown, and so is the old object of the next update",
        "raise --audit-webhook-truncate-max-event-size, or leave truncation off",
    ),
    "altered_empty": LossKind(
        Severity.LOST,
        "writes",
        "have {} for a body that an API server recorded",
        "policies that read the object are unknown for them",
        "take the log before the pipeline that empties bodies, or turn that off there",
    ),
    "altered_kind": LossKind(
        Severity.LOST,
        "writes",
        "have bodies without kind or apiVersion, which an API server always writes",
        "such a body is not used: policies that read the object are unknown for them",
        "take the log before the pipeline that changes bodies, or turn that off there",
    ),
    "altered_metadata": LossKind(
        Severity.LOST,
        "writes",
        "have bodies without metadata, as Elastic's Kubernetes integration writes them",
        "such a body is not used: policies that read the object are unknown for them",
        "keep `event.original` in the documents (preserve_original_event), or take the API server's own log",
    ),
    "altered_keys": LossKind(
        Severity.LOST,
        "writes",
        "have bodies whose keys may have had dots, because a filter renamed keys",
        "such a body is not used: policies that read the object are unknown for them",
        "turn off Replace_Dots of Fluent Bit, dedot or de_dot; Hindcast restores only the names of annotations",
    ),
    "unanswered": LossKind(
        Severity.LOST,
        "requests",
        "have no final stage although it is overdue",
        "whether they were admitted is not known, so they count as unknown",
        "record ResponseComplete; see whether the API server was stopped at that time",
    ),
    "unseen_write": LossKind(
        Severity.POSSIBLE,
        "updates",
        "replaced a version of their object that nothing recorded made",
        "at least so many writes are not in the lake: lost, or given level None; old objects before them are not certain",
        "record every write of these resources, subresources too, at level RequestResponse",
    ),
    "silence": LossKind(
        Severity.POSSIBLE,
        "stretches of time",
        "in which the cluster recorded nothing, unlike usually",
        "requests of that time may be missing",
        "see whether the API server or the sink was down; record a lease, so that quiet and loss differ (`hindcast init`)",
    ),
    "burst": LossKind(
        Severity.POSSIBLE,
        "times ten seconds",
        "brought nearly as much as an API server's webhook can send",
        "what came on top of its buffer was dropped; the API server logs and counts that, and the sink does not hear of it",
        "raise --audit-webhook-batch-buffer-size and --audit-webhook-batch-throttle-qps, or record less; compare with --metrics",
    ),
    "late": LossKind(
        Severity.NOTE,
        "batches",
        "came so late that they must have been repeated or held back",
        "these came, so the sink could not be reached or refused for a while; batches that failed five times then are not here",
        "see whether the sink was reachable then, and how full its disk was; `hindcast doctor --metrics` tells whether "
        "batches were dropped",
    ),
    "level_metadata": LossKind(
        Severity.WITHHELD,
        "writes",
        "were recorded at level Metadata, without bodies",
        "policies that read the object are unknown for them",
        "raise their level to RequestResponse, unless the bodies are credentials: `hindcast init --check`",
    ),
    "level_unknown": LossKind(
        Severity.WITHHELD,
        "writes",
        "were recorded without an answer, and without a level that API servers write",
        "whether a missing body was left out or never sent is unknown; policies that read the object are unknown for them",
        "see which tool between the API server and Hindcast drops or changes the field `level`",
    ),
    "level_request": LossKind(
        Severity.WITHHELD,
        "writes",
        "were recorded at level Request, without the answer",
        "the object is known as the client sent it, before mutation, so verdicts are approximate",
        "raise their level to RequestResponse: `hindcast init --check`",
    ),
    "redacted": LossKind(
        Severity.WITHHELD,
        "writes",
        "had their bodies taken out at the door, because they hold credentials",
        "policies that read the object are unknown for them",
        "nothing, or `--redact-resources` where the resource holds no credential",
    ),
    "no_uri": LossKind(
        Severity.WITHHELD,
        "requests",
        "were recorded without their URI, as in exports of GKE",
        "their options, whether they were dry runs, their selectors, and the paths of requests for no resource are unknown; roles "
        "are judged by the verb and the object",
        "ingest the audit log of the API server itself, where you can have it",
    ),
    "other_uri": LossKind(
        Severity.WITHHELD,
        "requests",
        "have a URI that does not name the object of objectRef, so a tool between the API server and this log made it up",
        "objectRef counts; options, dry runs and selectors are unknown, as without a URI",
        "ingest what the API server or the cloud exported, without that tool",
    ),
    "no_groups": LossKind(
        Severity.WITHHELD,
        "requests",
        "were recorded without the groups of their user, as in exports of GKE",
        "a right or an expression that depends on a group is unknown for them",
        "ingest the audit log of the API server itself, where you can have it; bind roles to users in manifests that you try",
    ),
    "unended": LossKind(
        Severity.NOTE,
        "long-running requests",
        "began more than an hour before the last event and never ended",
        "their verdicts are known from the first stage; only how they ended is not",
        "nothing, unless the API server was stopped",
    ),
    "conflicting": LossKind(
        Severity.NOTE,
        "events",
        "came twice with different content, and the first copy was kept",
        "one of the copies was cut or changed on its way; verdicts use the stored one",
        "give both backends the same truncation; ingest the fuller source first",
    ),
    "clock_backwards": LossKind(
        Severity.NOTE,
        "events",
        "reached a stage before their request was received",
        "a clock was set back: the policies in force at that moment are less certain",
        "synchronize the clocks of the control plane",
    ),
    "clock_ahead": LossKind(
        Severity.NOTE,
        "events",
        "arrived before they happened, by the clocks of sink and API server",
        "times of different clusters and sources do not compare",
        "synchronize the clocks of the sink and of the control plane",
    ),
}
