"""Every call that recorded webhooks received, predicted from the log and the configurations of that time.

`../shared/data/webhooks-a`: the audit log of a kube-apiserver with 79 webhooks, and every AdmissionReview that they
received. Reviews of an ambiguous request are left out. A webhook behind a dead port receives nothing; the log shows the attempt.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from ingest.sources.snapshot import ingest_snapshot
from pipeline.request import Unknown
from pipeline.runs import RunStore
from pipeline.runs.window import Window
from pipeline.stages.mutating.changes import changes
from pipeline.stages.registry import WEBHOOKS
from pipeline.stages.stage import Asked
from pipeline.stages.validating.execute import run_replay
from pipeline.stages.validating.load import parse_policy_set
from pipeline.stages.validating.planning import plan_replay
from pipeline.stages.webhooks import Call, Called, Phase, trace_of
from pipeline.stages.webhooks.behaviour import behaviour
from pipeline.stages.webhooks.instead import InsteadJudge
from pipeline.stages.webhooks.migration import BOTH_DENY, LOOSER, STRICTER, compare
from pipeline.stages.webhooks.model import AsRecorded
from pipeline.stages.webhooks.walk import Walk
from queries import open_lake
from tests.recorded_files import rows_of

pytestmark = pytest.mark.conformance

SNAPSHOTS = ("0-before", "1-webhooks", "2-end")
# The counts that this suite has reached; a change that makes one worse must say why.
AGREED_MIN, NOT_CALLED_MIN, UNKNOWN_MAX = 10_200, 23_000, 495


class Hook(NamedTuple):
    """One webhook in one round."""

    configuration: str
    webhook: str
    phase: str
    round: int


@pytest.fixture(scope="module")
def webhooks_lake(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = shared / "data" / "webhooks-a"
    lake = Lake.create(tmp_path_factory.mktemp("webhooks") / "lake")
    ingest_files(lake, [source / "audit.jsonl.zst"], "lab", received_ts=0.0)
    for name in SNAPSHOTS:
        taken = next(rows_of(source / "snapshots" / name / "namespaces.json.zst"))["metadata"]["takenAt"]
        ingest_snapshot(lake, [source / "snapshots" / name], "lab", datetime.fromtimestamp(float(taken), UTC))
    lake.close()
    return lake.path


class Predicted:
    """What is predicted of one request: the calls, and the reasons where they are unknown."""

    def __init__(self) -> None:
        self.calls: Counter[Hook] = Counter()
        self.unknown: dict[Hook, str] = {}
        self.decided: Counter[str] = Counter()
        self.attempts: set[Hook] = set()

    def add(self, call: Call) -> None:
        phase, name = str(call.hook.phase), call.hook.webhook.name
        first, second = (Hook(call.hook.configuration, name, phase, number) for number in (0, 1))
        self.decided[str(call.decision)] += 1
        if call.decision is Called.UNKNOWN:
            self.unknown[first] = call.why
            if call.hook.webhook.reinvocation == "IfNeeded":
                self.unknown[second] = call.why
        elif call.decision is Called.CALLED:
            self.calls[first] += call.passes
            if isinstance(call.second, Unknown):
                self.unknown[second] = call.second.reason
            elif call.second:
                self.calls[second] += 1


def received(source: Path) -> tuple[dict[str, Counter[Hook]], set[str]]:
    """The reviews of each request, by webhook and round; and the requests whose reviews cannot be told apart, or had two passes."""
    reviews: defaultdict[str, Counter[Hook]] = defaultdict(Counter)
    left_out: set[str] = set()
    for review in rows_of(source / "truth.jsonl.zst"):
        if " of " in review["join"] or review.get("pass") is not None:
            left_out.add(review["auditID"])
        hook = Hook(review["configuration"], review["webhook"], review["phase"], review.get("round") or 0)
        reviews[review["auditID"]][hook] += 1
    for request in rows_of(source / "requests.jsonl.zst"):
        reviews[request["auditID"]] += Counter()
    return reviews, left_out


def test_predicted_calls_are_the_received_reviews(shared: Path, webhooks_lake: Path) -> None:
    """Webhook by webhook and round by round, every known prediction equals what was received; the rest is counted by reason."""
    reviews, left_out = received(shared / "data" / "webhooks-a")
    predicted: defaultdict[str, Predicted] = defaultdict(Predicted)
    verbs: dict[str, str] = {}
    with closing(open_lake(webhooks_lake)) as reader:
        walk = Walk(reader, Window())
        for found in walk.by_record():
            event, own = found.event, predicted[found.audit_id]
            verbs[found.audit_id] = event.verb
            trace = trace_of(event.annotations, event.message)
            for call in found.calls:
                own.add(call)
                name, phase = call.hook.webhook.name, call.hook.phase
                if trace.of(phase, call.hook.configuration, name):
                    own.attempts.add(Hook(call.hook.configuration, name, str(phase), 0))
        assert not list(walk.plain()), "configurations that change are judged per request"
    table: Counter[str] = Counter()
    by_hook: defaultdict[Hook, Counter[str]] = defaultdict(Counter)
    reasons: Counter[str] = Counter()
    wrong: list[tuple[object, ...]] = []
    for audit_id, real in reviews.items():
        own = predicted[audit_id]
        if audit_id in left_out:
            table["request left out: its reviews are ambiguous, or admission ran twice"] += 1
            continue
        for hook in real.keys() | own.calls.keys() | own.unknown.keys():
            if hook in own.unknown:
                table["unknown"] += 1
                by_hook[hook]["unknown"] += 1
                reasons[f"{own.unknown[hook]} ({'received' if real[hook] else 'not received'})"] += 1
            elif own.calls[hook] == real[hook]:
                table["agreed"] += 1
                by_hook[hook]["agreed"] += 1
                by_hook[hook]["reviews"] += real[hook]
            elif not real[hook] and hook in own.attempts:
                # The call failed, or its review was counted for another request at the same time.
                table["agreed: the log shows the attempt"] += 1
            elif real[hook] == own.calls[hook] + 1 > 2 and verbs[audit_id] == "delete":
                # A store that removes a pod at once asks twice, and once more if its cached copy was old: that leaves no trace.
                table["agreed: a delete whose store read an old copy"] += 1
            else:
                table["wrong"] += 1
                wrong.append((audit_id, verbs.get(audit_id), *hook, f"predicted {own.calls[hook]}, received {real[hook]}"))
        table["not called, by a selector or condition"] += own.decided["nomatch"]
        table["not reached"] += own.decided["unreached"]
        table["rejected without a call"] += own.decided["error"]
    for hook, counts in sorted(by_hook.items()):
        place = f"{hook.configuration}/{hook.webhook} {hook.phase} round {hook.round}"
        print(f"{counts['agreed']:>6} agreed, {counts['reviews']:>6} reviews, {counts['unknown']:>4} unknown: {place}")
    for name, count in (*table.most_common(), *((f"  unknown: {why}", count) for why, count in reasons.most_common())):
        print(f"{count:>8,}  {name}")
    assert not wrong, wrong[:20]
    assert table["rejected without a call"]
    assert table["agreed"] >= AGREED_MIN
    assert table["unknown"] <= UNKNOWN_MAX
    assert table["not called, by a selector or condition"] >= NOT_CALLED_MIN


def test_every_called_webhook_is_predicted(shared: Path, webhooks_lake: Path) -> None:
    """Each webhook that received a review is called in the prediction, and both phases are there.

    The two webhooks of one request that timed out are unknown: such a request leaves no annotations.
    """
    reviews, _ = received(shared / "data" / "webhooks-a")
    names = {hook.webhook for hooks in reviews.values() for hook in hooks}
    with closing(open_lake(webhooks_lake)) as reader:
        calls = [call for found in Walk(reader, Window()).by_record() for call in found.calls]
    called = {call.hook.webhook.name for call in calls if call.decision is Called.CALLED}
    assert {name for name in names if ".deadline." not in name} <= called
    assert {call.hook.phase for call in calls} == set(Phase)


def test_the_behaviour_report_counts_every_annotation(shared: Path, webhooks_lake: Path) -> None:
    """The recording counted the annotations of each kind; the report has as many attempts, patches and failures."""
    told = json.loads((shared / "data" / "webhooks-a" / "counts.json").read_text())["annotations"]

    def count(kind: str) -> int:
        return sum(number for name, number in told.items() if name.startswith(f"{kind}.webhook.admission.k8s.io/"))

    with closing(open_lake(webhooks_lake)) as reader:
        found = behaviour(reader, Window())
    mutating, validating = ([each for each in found if each.phase == phase] for phase in Phase)
    assert sum(each.attempts for each in mutating) == count("mutation")
    assert sum(each.patches for each in mutating) == count("patch")
    assert sum(each.failed_open for each in mutating) == count("failed-open.mutation")
    assert sum(each.failed_open for each in validating) == count("failed-open.validating")


# The recording has four policies that replace one webhook: one that says the same, and three that do not.
RESERVED = "names.reserved-names.hooks.example.com"


@pytest.mark.parametrize("policy", ["exact", "typo"])
def test_a_migration_knows_the_answers_of_the_webhook(shared: Path, webhooks_lake: Path, policy: str) -> None:
    """What the record says of the webhook is what it answered; the policy with a typo denies nothing of it."""
    source = shared / "data" / "webhooks-a"
    answered = {each["auditID"]: each["answer"] for each in rows_of(source / "truth.jsonl.zst") if each["webhook"] == RESERVED}
    manifests = json.loads((source / "policies" / f"vap-{policy}.json").read_text())
    policies = parse_policy_set([(policy, json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))])
    with closing(open_lake(webhooks_lake)) as reader:
        replay = plan_replay(reader, policies)
        plan = WEBHOOKS.plan(reader, AsRecorded.RULES, Asked())
    run_replay(replay, webhooks_lake)
    WEBHOOKS.run(plan, webhooks_lake)
    store = RunStore(webhooks_lake)
    with closing(open_lake(webhooks_lake)) as reader:
        found = compare(reader, store.run(plan.run_id).verdicts, store.run(replay.run_id).verdicts, RESERVED)
        said = reader.connection.execute("SELECT audit_id, webhook_says FROM webhooks_migration").fetchall()
    known = {audit_id: says for audit_id, says in said if says in ("allow", "deny")}
    assert len(known) > 450
    assert {audit_id: says for audit_id, says in known.items() if (says == "allow") != answered[audit_id].get("allowed")} == {}
    for each in found.witnesses:
        print(f"{each.requests:>6,}  {each.cell}: {each.operation} {each.resource} {each.message}")
    denied = sum(says == "deny" for says in known.values()) - found.requests("policy unknown")
    if policy == "exact":
        assert found.requests(STRICTER, LOOSER) == 0
        assert found.requests(BOTH_DENY) == found.same_message == denied
    else:
        assert (found.requests(LOOSER), found.requests(BOTH_DENY)) == (denied, 0)


# Set by defaults and the store after the webhooks, by the conversion to the version that a webhook asks for, or by the plugin of
# priorities, which the log shows in answers alone.
_LATER = (
    "metadata.uid", "metadata.managedFields", "metadata.creationTimestamp", "metadata.resourceVersion", "metadata.generation",
    "metadata.name", "spec.clusterIP", "spec.ipFamil", "spec.finalizers", "spec.priority",
    "spec.preemptionPolicy", "status", "apiVersion",
)  # fmt: skip


def test_an_object_without_the_patches_of_a_webhook_is_the_one_that_it_received(shared: Path, webhooks_lake: Path) -> None:
    """For the last webhook that changed an object: later ones leave it as it is, so that its review shows the rest."""
    reviews = {
        (row["auditID"], row["configuration"], row["webhook"]): row["object"]
        for row in rows_of(shared / "data" / "webhooks-a" / "truth.jsonl.zst")
        if row["phase"] == "mutating" and row.get("round") == 0
    }
    table: Counter[str] = Counter()
    wrong = []
    with closing(open_lake(webhooks_lake)) as reader:
        judge = InsteadJudge(reader, Window(), (1, 36), None)
        for found in Walk(reader, Window(), reads_all=True).by_record():
            changed = [each for each in found.trace.attempts if each.mutated]
            if not changed or isinstance(found.request, Unknown):
                continue
            last = changed[-1]
            review = reviews.get((found.audit_id, last.configuration, last.webhook))
            undone = judge.undone(found.event, found.request, last.webhook, last.configuration)
            if isinstance(undone, Unknown):
                table[f"unknown: {undone.reason.split(':')[0]}"] += 1
            elif review is None or last.round:
                table["left out: no review, or of the second round"] += 1
            else:
                differing = [each.path for each in changes(review, undone.object.value) if not each.path.startswith(_LATER)]
                table["different" if differing else "equal"] += 1
                wrong += [(found.audit_id, last.webhook, differing)] if differing else []
    print(dict(table))
    assert not wrong, wrong[:5]
    assert table["equal"] >= 450
