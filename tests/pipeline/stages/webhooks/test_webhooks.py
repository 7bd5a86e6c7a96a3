"""The stage of webhooks: tests/cases/webhooks/{calls,files}.yaml."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import InputError
from pipeline.manifests.files import manifests_of
from pipeline.request import Unknown
from pipeline.runs import RunKind, RunStore
from pipeline.runs.window import Window
from pipeline.stages.in_force import GivenChain
from pipeline.stages.registry import WEBHOOKS
from pipeline.stages.stage import Asked
from pipeline.stages.webhooks import Call, Called, Chain, Configuration, Phase, configurations_of, trace_of
from pipeline.stages.webhooks.decode import configuration_from_object
from pipeline.stages.webhooks.interception import interception, reasons
from pipeline.stages.webhooks.walk import Walk
from queries import LakeReader, open_lake
from tests.recording import START, take_in, uri_of
from tests.yaml_text import load_yaml

FOLDER = Path(__file__).parents[3] / "cases" / "webhooks"
CASES: list[dict[str, Any]] = load_yaml((FOLDER / "calls.yaml").read_text())
FILES: list[dict[str, Any]] = load_yaml((FOLDER / "files.yaml").read_text())
STEP = timedelta(minutes=1)
KINDS = {"pods": "Pod", "configmaps": "ConfigMap", "namespaces": "Namespace", "deployments": "Deployment", "events": "Event"}
NAMESPACES = ("shop", "swept")


def start_of(case: Mapping[str, Any]) -> datetime:
    """Each case has a day of its own in one lake, after that of the namespaces."""
    return START + timedelta(days=1 + CASES.index(dict(case)))


def configurations(hooks: Mapping[str, Mapping[str, Any]]) -> tuple[Configuration, ...]:
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for key, fields in hooks.items():
        phase = Phase.MUTATING if key.startswith("m:") else Phase.VALIDATING
        configuration, _, name = key.removeprefix("m:").partition("/")
        value = {field: each for field, each in fields.items() if field not in ("rules", "scope", "conditions", "apiVersion")}
        value["rules"] = [rule_of(text, fields.get("scope", "*")) for text in fields["rules"]]
        value["matchConditions"] = [
            {"name": f"c{index}", "expression": each} for index, each in enumerate(fields.get("conditions", ()))
        ]
        group = (phase.kind, configuration, fields.get("apiVersion", "v1"))
        found.setdefault(group, []).append({"name": name, "sideEffects": "None"} | value)
    return tuple(
        configuration_from_object(
            {
                "apiVersion": f"admissionregistration.k8s.io/{version}",
                "kind": kind,
                "metadata": {"name": name if version == "v1" else f"{name}-{version}"},
                "webhooks": webhooks,
            },
            "case",
        )
        for (kind, name, version), webhooks in found.items()
    )


def rule_of(text: str, scope: str) -> dict[str, Any]:
    operations, _, place = text.partition(" ")
    group, version, resource = place.split("/", 2)
    return {
        "operations": operations.split(","),
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [resource],
        "scope": scope,
    }


def event_of(case: Mapping[str, Any], index: int) -> dict[str, Any]:
    told = case["log"][index]
    verb, place, target = told["do"].split(" ")
    group, version, path = place.split("/", 2)
    resource, _, subresource = path.partition("/")
    namespace, _, name = target.partition("/")
    at = start_of(case) + index * STEP
    if told.get("crosses"):
        at -= STEP - timedelta(milliseconds=1)  # it began before the request before it was answered
    api_version = f"{group}/{version}".lstrip("/")
    body = object_of(api_version, resource, namespace, name, told.get("labels", {}))
    answer = object_of(api_version, resource, namespace, name, told.get("response_labels", told.get("labels", {})))
    answer["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": str(index + 1)}
    answer["metadata"] |= told.get("meta", {})
    for each in (body, answer):
        each |= {"spec": told["spec"]} if "spec" in told else {}
    if verb == "deletecollection":
        items = [object_of("", resource, namespace, each, {})["metadata"] for each in told["items"]]
        more = {"spec": told["spec"]} if "spec" in told else {}
        kind = f"{KINDS[resource]}List"
        answer = {"kind": kind, "apiVersion": "v1", "metadata": {}, "items": [{"metadata": each, **more} for each in items]}
    code = told.get("code", 201 if verb == "create" else 200)
    status = {"metadata": {}, "code": code, **({"message": told["message"]} if "message" in told else {})}
    if "reason" in told:
        status["reason"] = told["reason"]
    has_body = verb in ("create", "update") and subresource not in ("exec",)
    bodies: dict[str, Any] = {"requestObject": body} if has_body else {}
    if "options" in told:
        bodies["requestObject"] = {"kind": "DeleteOptions", "apiVersion": "v1", **told["options"]}
    if code < 300 and code != 101 and not told.get("unanswered"):
        bodies["responseObject"] = answer
    reference = {
        "resource": resource, "namespace": namespace or (name if resource == "namespaces" else ""), "name": name,
        "apiGroup": group, "apiVersion": version, "subresource": subresource,
    }  # fmt: skip
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": f"{CASES.index(dict(case))}-{index}",
        "stage": "ResponseComplete",
        "requestURI": f"{uri_of(verb, reference)}?{told.get('query', '')}".rstrip("?"),
        "verb": verb,
        "user": {"username": "alice", "groups": ["system:authenticated"]},
        "objectRef": reference,
        "responseStatus": status,
        "requestReceivedTimestamp": f"{at:%Y-%m-%dT%H:%M:%S.%f}Z",
        "stageTimestamp": f"{at + timedelta(milliseconds=4):%Y-%m-%dT%H:%M:%S.%f}Z",
        "annotations": annotations_of(told),
        **bodies,
    }  # fmt: skip


def object_of(api_version: str, resource: str, namespace: str, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name} | ({"namespace": namespace} if namespace else {})
    metadata |= {"labels": dict(labels)} if labels else {}
    return {"apiVersion": api_version, "kind": KINDS.get(resource, "Thing"), "metadata": metadata}


def annotations_of(told: Mapping[str, Any]) -> dict[str, str]:
    found = {"authorization.k8s.io/decision": told.get("decision", "allow")}
    for index, call in enumerate(told.get("calls", ())):
        number, _, hook = call.rstrip("+").partition(" ")
        configuration, _, webhook = hook.partition("/")
        place = f"round_{number}_index_{index % 10}"
        value = {"configuration": configuration, "webhook": webhook, "mutated": call.endswith("+")}
        found[f"mutation.webhook.admission.k8s.io/{place}"] = json.dumps(value)
        if index in told.get("patches", {}):
            patch = {"configuration": configuration, "webhook": webhook, "patch": told["patches"][index], "patchType": "JSONPatch"}
            found[f"patch.webhook.admission.k8s.io/{place}"] = json.dumps(patch)
    return found


def namespace_event(name: str, index: int) -> dict[str, Any]:
    body = object_of("v1", "namespaces", "", name, {"kubernetes.io/metadata.name": name})
    at = START + index * STEP
    return {
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse", "auditID": f"namespace-{name}",
        "stage": "ResponseComplete", "requestURI": "/api/v1/namespaces", "verb": "create", "user": {"username": "root"},
        "objectRef": {"resource": "namespaces", "name": name, "namespace": name, "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 201}, "requestObject": body, "responseObject": body,
        "requestReceivedTimestamp": f"{at:%Y-%m-%dT%H:%M:%S.%f}Z", "stageTimestamp": f"{at:%Y-%m-%dT%H:%M:%S.%f}Z",
    }  # fmt: skip


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One lake with the requests of all cases."""
    events = [namespace_event(name, index) for index, name in enumerate(NAMESPACES)]
    events += [event_of(case, index) for case in CASES for index in range(len(case["log"]))]
    return take_in(tmp_path_factory.mktemp("stories") / "lake", events)


@pytest.fixture(scope="module")
def reader(stories: Path) -> Iterator[LakeReader]:
    with closing(open_lake(stories)) as opened:
        yield opened


def words_of(call: Call) -> str:
    if call.decision is Called.ERROR:
        return f"error {call.code}"
    if call.decision is not Called.CALLED:
        return str(call.decision)
    again = " twice" if call.second is True or call.passes == 2 else ""
    again = again or (" perhaps twice" if isinstance(call.second, Unknown) or call.more_passes else "")
    if call.conversion == "none" or call.resource is None:
        return f"called{again}"
    resource = call.resource
    return f"called as {resource.resource}.{resource.version}.{resource.group}".rstrip(".") + again


def decisions(reader: LakeReader, case: Mapping[str, Any]) -> list[dict[str, str]]:
    """The decisions about each request of a case, by the first label of the webhook's name."""
    start, version = start_of(case), tuple(case.get("version", (1, 36)))
    chain = Chain(configurations(case["hooks"]), (version[0], version[1]))
    walk = Walk(reader, Window(start, start + timedelta(days=1)), GivenChain(chain), (version[0], version[1]))
    found: list[Counter[tuple[str, str]]] = [Counter() for _ in case["log"]]
    for each in walk.by_record():
        at = int(each.audit_id.rpartition("-")[2])
        found[at].update((call.hook.webhook.name.partition(".")[0], words_of(call)) for call in each.calls)
    answers = {each.number: each.calls for each in walk.plain()}
    rows = reader.connection.execute(
        "SELECT audit_id, number FROM webhooks_plain JOIN webhooks_questions USING (question)"
    ).fetchall()
    for audit_id, number in rows:
        at = int(audit_id.rpartition("-")[2])
        found[at].update((call.hook.webhook.name.partition(".")[0], words_of(call)) for call in answers[number])
    return [{name: words if count == 1 else f"{words} x{count}" for (name, words), count in counts.items()} for counts in found]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_webhooks_are_called_as_the_server_calls_them(case: dict[str, Any], reader: LakeReader) -> None:
    assert decisions(reader, case) == case["expect"]


@pytest.mark.parametrize("case", FILES, ids=lambda case: case["name"])
def test_files_are_read_with_the_defaults_of_their_version(case: dict[str, Any]) -> None:
    documents = manifests_of([("hooks.yaml", case["text"])])
    if "error" in case:
        with pytest.raises(InputError) as caught:
            configurations_of(documents)
        assert caught.value.message == case["error"]
        return
    (configuration,) = configurations_of(documents)
    (hook,) = configuration.webhooks
    found = {
        "failurePolicy": str(hook.failure_policy),
        "matchPolicy": hook.criteria.match_policy,
        "timeoutSeconds": hook.timeout_seconds,
        "reinvocationPolicy": hook.reinvocation,
        "sideEffects": hook.side_effects,
    }
    assert found == case["defaults"]


def test_a_run_keeps_the_verdict_of_every_webhook(stories: Path, reader: LakeReader) -> None:
    """The same verdicts in the run store, with the place of each webhook, and the same run for the same question."""
    text = next(case["text"] for case in FILES if case["name"] == "v1 defaults")
    rules = WEBHOOKS.read(manifests_of([("hooks.yaml", text)]))
    with closing(open_lake(stories)) as opened:
        plan = WEBHOOKS.plan(opened, rules, Asked())
        again = WEBHOOKS.plan(opened, rules, Asked())
    assert plan.run_id == again.run_id
    summary = WEBHOOKS.run(plan, stories, kind=RunKind.REPLAY)
    verdicts = RunStore(stories).run(plan.run_id).verdicts
    ((configuration, webhook, phase, called, *_),) = interception(reader, verdicts)
    assert (configuration, webhook, phase) == ("guard", "names.guard.example.com", "validating")
    # All creates of configmaps that passed policies in the cases above.
    created = sum(
        each["do"].startswith("create /v1/configmaps") and each.get("code") in (None, 409) for case in CASES for each in case["log"]
    )
    assert called == created
    assert {each.decision for each in reasons(reader, verdicts)} == {"unreached", "unknown"}
    # A refused patch is planned as a possible creation; the history of its object may show that the object existed.
    assert plan.requests >= summary.evaluated > created
    before = verdicts.read_bytes()
    WEBHOOKS.run(plan, stories, kind=RunKind.REPLAY)
    assert verdicts.read_bytes() == before


PLACES = st.tuples(st.integers(0, 1), st.integers(0, 30))


@given(
    st.dictionaries(PLACES, st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.booleans())),
    st.dictionaries(st.text(max_size=20), st.text(max_size=20)),
)
def test_a_trace_is_read_whole_and_in_order(attempts: dict[tuple[int, int], tuple[str, str, bool]], others: dict[str, str]) -> None:
    """Attempts come back by round and place, whatever else annotates the event."""
    told = dict(others)
    for (number, place), (configuration, webhook, mutated) in attempts.items():
        value = json.dumps({"configuration": configuration, "webhook": webhook, "mutated": mutated})
        told[f"mutation.webhook.admission.k8s.io/round_{number}_index_{place}"] = value
    assert [tuple(each) for each in trace_of(told, "").attempts] == [(*at, *attempts[at]) for at in sorted(attempts)]
