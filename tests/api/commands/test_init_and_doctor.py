"""`init` writes what a cluster needs to be recorded, over nothing; `doctor` and `init --check` say what is not there."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from api.access.identities import IdentityFile
from api.checks.checkup import Finding, ledger_findings
from api.checks.server_findings import metrics_findings
from api.cli import run
from api.stages.validating.coverage import coverage_of
from ingest.lake import Lake
from ingest.quarantine import Quarantined, write_quarantine
from ingest.server.audit_policy import Attributes, parse_audit_policy
from ingest.server.metrics import read_server_metrics
from ingest.server.recommended import CREDENTIALS, audit_policy_text
from ingest.spooling.spool import Spool
from ingest.store import EventStore, Lines
from pipeline.matching import Target
from pipeline.request import GroupVersionResource
from pipeline.stages.validating.load import parse_policy_set
from queries import open_lake, rows_of
from queries.ledger import Severity
from queries.reach_rules import CONNECT_SUBRESOURCES
from queries.rows import Loss
from tests.deploy.schemas import faults
from tests.drawing import MANY
from tests.yaml_text import load_yaml

POLICIES = Path(__file__).parents[3] / "api" / "demo" / "policies"


def event(number: int, **fields: Any) -> bytes:
    stamp = f"2026-01-01T00:{number // 60:02}:{number % 60:02}.000000Z"
    head = {"auditID": f"id-{number}", "stage": "ResponseComplete", "level": "Metadata", "verb": "get", "stageTimestamp": stamp}
    head |= {
        "requestReceivedTimestamp": stamp,
        "requestURI": "/api/v1/namespaces/n/pods/x",
        "user": {"username": "dana", "groups": ["system:authenticated"]},
        "objectRef": {"resource": "pods", "apiVersion": "v1", "namespace": "n", "name": "x"},
    }
    return json.dumps(head | {"responseStatus": {"code": 200}} | fields).encode()


def fill(lake: Lake, source: str, *lines: bytes, cluster: str = "lab") -> None:
    with lake.writer() as writer:
        store = EventStore(writer)
        store.store([Lines(cluster, source, 1_767_225_612.0, lines)], {}, "q")
        store.close()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.create(tmp_path / "lake")


def doctor(lake: Lake, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run(["--lake", str(lake.path), "doctor", "-o", "json", *arguments])
    shown = capsys.readouterr()
    assert shown.out, shown.err
    return code, json.loads(shown.out)


def test_what_init_writes_fits_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run(["init", "--out", str(out), "--cluster", "prod-1", "--server", "https://sink:7443/", "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in out.iterdir()} == {
        "audit-policy.yaml": "0o644",
        "audit-webhook.kubeconfig": "0o600",
        "identities": "0o600",
    }
    config = load_yaml((out / "audit-webhook.kubeconfig").read_text())
    assert config["clusters"][0]["cluster"]["server"] == "https://sink:7443/audit/prod-1"
    token = config["users"][0]["user"]["token"]
    assert IdentityFile(out / "identities").clusters_of(token, None) == {"prod-1"}
    flags = " ".join(row["flag"] for row in shown["flags"])
    for name in ("audit-policy-file", "audit-webhook-config-file", "batch-buffer-size", "truncate-enabled", "audit-log-path"):
        assert name in flags
    assert token not in json.dumps(shown)


@pytest.mark.parametrize("has_certificate", [False, True])
def test_the_recorder_webhook_fits_the_sink(tmp_path: Path, *, has_certificate: bool) -> None:
    identity = ["--client-certificate", "/pki/c.crt", "--client-key", "/pki/c.key"] if has_certificate else []
    start = ["-q", "init", "--out", str(tmp_path), "--cluster", "prod-1", "--server", "https://sink:7443", "--recorder"]
    assert run([*start, "--make-certificate", *identity]) == 0
    text = (tmp_path / "recorder.yaml").read_text()
    configuration = load_yaml(text)
    assert faults(configuration, "1.36") == []
    (webhook,) = configuration["webhooks"]
    assert (webhook["failurePolicy"], webhook["sideEffects"]) == ("Ignore", "None")
    assert base64.b64decode(webhook["clientConfig"]["caBundle"]).decode() in (tmp_path / "sink.crt").read_text()
    base, _, token = webhook["clientConfig"]["url"].partition("/admission/prod-1")
    identities = IdentityFile(tmp_path / "identities")
    assert base == "https://sink:7443"
    assert oct((tmp_path / "recorder.yaml").stat().st_mode & 0o777) == "0o600"
    config = load_yaml((tmp_path / "audit-webhook.kubeconfig").read_text())
    if has_certificate:
        assert token == ""
        admission = load_yaml((tmp_path / "recorder-admission.yaml").read_text())
        named = Path(admission["plugins"][0]["configuration"]["kubeConfigFile"])
        (user,) = load_yaml(named.read_text())["users"]
        # kubernetes/apiserver pkg/util/webhook/authentication.go looks for a user with the host and port of the URL.
        assert user == {"name": "sink:7443", "user": config["users"][0]["user"]}
        assert identities.clusters_of(None, "apiserver-prod-1") == {"prod-1"}
    else:
        proof = token.removeprefix("/")
        assert identities.clusters_of(proof, None, is_review=True) == {"prod-1"}
        # Many may read a webhook's configuration: its token sends no audit events.
        assert identities.clusters_of(proof, None) == frozenset()
        assert token.removeprefix("/") != config["users"][0]["user"]["token"]  # each can be withdrawn alone


def test_a_recorder_needs_https(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-q", "init", "--out", str(tmp_path / "out"), "--recorder"]) == 2
    assert "https://" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_init_replaces_nothing_unless_forced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = ["-q", "init", "--out", str(tmp_path)]
    (tmp_path / "identities").write_text("mine")
    assert run(start) == 2
    assert "identities: is there already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["identities"]
    assert run([*start, "--force"]) == 0
    assert "default token:" in (tmp_path / "identities").read_text()
    assert oct((tmp_path / "identities").stat().st_mode & 0o777) == "0o600"


def test_a_client_certificate_takes_the_tokens_place(tmp_path: Path) -> None:
    options = ["--client-certificate", "/pki/c.crt", "--client-key", "/pki/c.key", "--certificate-authority", "/pki/ca.crt"]
    assert run(["-q", "init", "--out", str(tmp_path), "--server", "https://sink", *options]) == 0
    config = load_yaml((tmp_path / "audit-webhook.kubeconfig").read_text())
    assert config["users"][0]["user"] == {"client-certificate": "/pki/c.crt", "client-key": "/pki/c.key"}
    assert config["clusters"][0]["cluster"]["certificate-authority"] == "/pki/ca.crt"
    assert IdentityFile(tmp_path / "identities").clusters_of(None, "apiserver-default") == {"default"}


@pytest.mark.parametrize("host", ["sink.example", "10.1.2.3", "fd00::1"])
def test_the_made_certificate_is_good_for_this_sink_alone(tmp_path: Path, host: str) -> None:
    server = f"https://[{host}]:7443" if ":" in host else f"https://{host}:7443"
    assert run(["-q", "init", "--out", str(tmp_path), "--server", server, "--make-certificate"]) == 0
    assert oct((tmp_path / "sink.key").stat().st_mode & 0o777) == "0o600"
    config = load_yaml((tmp_path / "audit-webhook.kubeconfig").read_text())
    authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
    shake_hands(tmp_path, authority, host)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"mismatch|not valid for"):
        shake_hands(tmp_path, authority, "other.example")
    # The next one is of another authority.
    assert run(["-q", "init", "--out", str(tmp_path), "--server", server, "--make-certificate", "--force"]) == 0
    with pytest.raises(ssl.SSLCertVerificationError, match="verify failed"):
        shake_hands(tmp_path, authority, host)


def shake_hands(folder: Path, authority: str, host: str) -> None:
    """A client that trusts nothing but the authority meets a server with the written files."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(folder / "sink.crt", folder / "sink.key")
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.verify_flags |= ssl.VERIFY_X509_STRICT
    asking.load_verify_locations(cadata=authority)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(to_client, to_server, server_hostname=host)
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    done = 0
    while done < 2:
        done = 0
        for side in (client, server):
            try:
                side.do_handshake()
                done += 1
            except ssl.SSLWantReadError:
                continue


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["init", "--server", "sink:7443"], "'sink:7443' is not a URL of a sink"),
        (["init", "--server", "https://["], "'https://[' is not a URL of a sink"),
        (["init", "--server", "https://h:99999"], "'https://h:99999' is not a URL of a sink"),
        (["init", "--server", "http://sink", "--make-certificate"], "speaks no TLS"),
        (["init", "--server", "https://sink", "--make-certificate", "--certificate-authority", "x"], "leave one of them out"),
        (["init", "--server", "https://sink/?a=b"], "has a query"),
        (["init", "--cluster", "../x"], "does not name a cluster"),
        (["init", "--server", "https://sink", "--client-key", "k"], "needs its key"),
        (["init", "--client-certificate", "c", "--client-key", "k"], "speaks no TLS"),
        (["init", "--audit-policy", "x.yaml"], "is for --check"),
        (["init", "--check", "--audit-policy", "nothing-here.yaml"], "cannot be read"),
        (["init", "--check"], "there is no lake here"),
        (["init", "-f", "nothing-here.yaml"], "no such file or folder"),
        (["doctor"], "there is no lake here"),
        (["doctor", "--metrics", "nothing-here.txt"], "no metrics"),
    ],
)
def test_bad_usage_is_one_line_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["--lake", "lake", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


GROUPS = ("", "apps", "batch", "events.k8s.io", "shop.example.com")
RESOURCES = ("pods", "events", "deployments", "widgets", "secrets", "leases", "*")
SUBRESOURCES = ("", "status", "scale", "exec", "*")
OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT", "*")
ENTRIES = st.builds(
    lambda resource, sub: f"{resource}/{sub}" if sub else resource, st.sampled_from(RESOURCES), st.sampled_from(SUBRESOURCES)
)
RULES = st.fixed_dictionaries(
    {
        "apiGroups": st.lists(st.sampled_from((*GROUPS, "*")), min_size=1, max_size=1),
        "apiVersions": st.just(["*"]),
        "operations": st.lists(st.sampled_from(OPERATIONS), min_size=1, max_size=1),
        "resources": st.lists(ENTRIES, min_size=1, max_size=1),
    }
)
VERBS = {"CREATE": ("create",), "UPDATE": ("update", "patch"), "DELETE": ("delete", "deletecollection")}


def policy_of(rules: list[dict[str, Any]], **spec: Any) -> str:
    spec |= {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "true"}]}
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"}}
    return yaml.safe_dump(head | {"spec": spec})


@settings(max_examples=MANY, deadline=None)
@given(rules=st.lists(RULES, min_size=1, max_size=2))
def test_the_audit_policy_for_given_policies_covers_all_that_they_match(rules: list[dict[str, Any]]) -> None:
    policies = parse_policy_set([("p.yaml", policy_of(rules))])
    constraints = policies.policies[0].match_constraints
    assert constraints is not None
    audit = parse_audit_policy(audit_policy_text(coverage_of(policies)), "audit.yaml", (1, 30))
    assert audit.warnings == ()
    credentials = {(group, entry) for group, entries in CREDENTIALS for entry in entries}
    for group in GROUPS:
        for resource in RESOURCES[:-1]:
            for subresource in SUBRESOURCES[:-1]:
                if (group, resource) in credentials or subresource in CONNECT_SUBRESOURCES:
                    continue
                for operation, verbs in VERBS.items():
                    target = Target(operation, GroupVersionResource(group, "v1", resource), subresource, True)
                    if any(rule.mismatch(target) is None for rule in constraints.resource_rules):
                        levels = {audit.level_for(Attributes(verb, group, resource, subresource)) for verb in verbs}
                        assert levels == {"RequestResponse"}, target


def test_params_and_managed_fields_of_policies_are_covered() -> None:
    rule = {"apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["*"], "resources": ["deployments"]}
    for kind, resource in (("ConfigMap", "configmaps"), ("Limit", "limits")):
        version = "v1" if kind == "ConfigMap" else "shop.example.com/v1"
        text = policy_of([rule], paramKind={"apiVersion": version, "kind": kind})
        coverage = coverage_of(parse_policy_set([("p.yaml", text)]))
        audit = parse_audit_policy(audit_policy_text(coverage), "audit.yaml")
        group = version.rpartition("/")[0]
        assert audit.level_for(Attributes("update", group, resource)) == "RequestResponse"
        assert audit.level_for(Attributes("update", "batch", "jobs")) == "Metadata"
        assert not coverage.reads_managed_fields
    text = policy_of([rule]).replace("'true'", "has(object.metadata.managedFields)")
    assert coverage_of(parse_policy_set([("p.yaml", text)])).reads_managed_fields


ROLE = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: view}, rules: []}"


@pytest.mark.parametrize("given", ["option", "roles", "roles and policies"])
def test_reads_are_recorded_for_questions_about_roles(tmp_path: Path, given: str) -> None:
    rule = {"apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["*"], "resources": ["deployments"]}
    manifests = tmp_path / "given.yaml"
    manifests.write_text(ROLE if given == "roles" else f"{ROLE}\n---\n{policy_of([rule])}")
    options = ["--record-reads"] if given == "option" else ["-f", str(manifests)]
    assert run(["-q", "init", "--out", str(tmp_path / "out"), *options]) == 0
    # The oldest server that is replayed knows no group `*`.
    audit = parse_audit_policy((tmp_path / "out" / "audit-policy.yaml").read_text(), "audit.yaml", (1, 30))
    assert audit.warnings == ()
    for verb in ("get", "list", "watch"):
        for group, resource in (("", "pods"), ("apps", "deployments"), ("shop.example.com", "widgets"), ("", "secrets")):
            assert audit.level_for(Attributes(verb, group, resource)) == "Metadata"
        assert audit.level_for(Attributes(verb, path="/healthz")) == "None"
    assert audit.level_for(Attributes("update", "apps", "deployments")) == "RequestResponse"
    assert audit.level_for(Attributes("create", "", "secrets")) == "Metadata"


def test_check_says_what_is_recorded_too_low_and_which_rule_decided(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writes = [event(1, verb="create"), event(2, verb="create"), event(3, verb="patch", level="RequestResponse")]
    fill(lake, "webhook", *writes, event(4), event(5, verb="create", objectRef={"resource": "secrets"}))
    policy = tmp_path / "audit.yaml"
    policy.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None, verbs: [get]}, {level: Metadata}]\n")
    start = ["--lake", str(lake.path), "init", "--check", "--audit-policy", str(policy), "-o", "json"]
    assert run(start) == 1
    shown = json.loads(capsys.readouterr().out)
    wanted = {"cluster": "lab", "resource": "pods", "verb": "create", "requests": 2, "recorded": "Metadata"}
    assert shown["withheld"] == [wanted | {"needed": "RequestResponse", "rule": "rule 2 (Metadata)"}]
    assert {row["writes"] for row in shown["state"]} == {0}
    assert run([*start[:-1], "table", "--limit", "1"]) == 1
    assert capsys.readouterr().out.count("more rows: --limit 0 shows all") == 1
    # Policies that are not about pods do not need them.
    rule = {"apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["*"], "resources": ["deployments"]}
    (tmp_path / "p.yaml").write_text(policy_of([rule]))
    assert run([*start, "-f", str(tmp_path / "p.yaml")]) == 0


def test_nothing_is_wrong_with_the_bundled_log(demo_lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown = doctor(Lake.open(demo_lake), capsys, "--verify")
    assert (code, [row["kind"] for row in shown["findings"]]) == (0, ["level_metadata"])
    assert shown["sources"][0]["events"] == 16_375
    assert (shown["lake"][0]["files"], shown["lake"][0]["waiting"]) == (2, 0)
    assert run(["--lake", str(demo_lake), "init", "--check", "-f", str(POLICIES)]) == 0
    assert "known" in capsys.readouterr().out


def test_the_state_of_a_lake_in_trouble(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    fill(lake, "webhook", event(1))
    with Spool(lake.path / "spool") as spool:
        spool.append("lab", "d", 1.0, [event(2), event(3)])
    write_quarantine(lake.path / "quarantine", [Quarantined("sink", "lab", 1.0, "no JSON", b"x")])
    (file,) = lake.files()
    (file.parent / "left-over.parquet").write_bytes(b"x")
    code, shown = doctor(lake, capsys)
    assert code == 1
    state = shown["lake"][0]
    assert (state["waiting"], state["segments"], state["quarantine_files"], state["unlisted"]) == (2, 1, 1, 1)
    assert [(row["kind"], row["severity"], row["count"]) for row in shown["findings"]] == [("quarantined", "lost", 1)]
    assert all(row["means"] and row["action"] for row in shown["findings"])


def test_a_damaged_file_is_found_by_verify(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    fill(lake, "webhook", event(1))
    (file,) = lake.files()
    assert doctor(lake, capsys, "--verify")[0] == 0
    data = bytearray(file.read_bytes())
    data[data.rindex(b"parquet-cpp")] ^= 1  # the name of the writer: every engine still reads the file, however long its footer is
    file.write_bytes(bytes(data))
    assert doctor(lake, capsys)[0] == 0
    code, shown = doctor(lake, capsys, "--verify")
    assert (code, [row["kind"] for row in shown["findings"]]) == (1, ["damaged_file"])
    assert "the checksum differs" in shown["findings"][0]["found"]


@pytest.mark.parametrize("damage", ["content", "gone"])
def test_files_that_no_engine_can_read_do_not_end_the_examination(
    lake: Lake, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    fill(lake, "webhook", event(1))
    (file,) = lake.files()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(b"x" * file.stat().st_size)
    code, shown = doctor(lake, capsys)
    assert (code, [row["kind"] for row in shown["findings"]]) == (1, ["unreadable", "damaged_file"])
    assert shown["sources"] == []
    assert shown["lake"][0]["files"] == 1


def test_an_event_that_may_still_be_on_its_way_is_not_lost_yet(lake: Lake) -> None:
    fill(lake, "webhook", event(1), event(9))
    fill(lake, "file:audit.log", event(1), event(5), event(9))
    reader = open_lake(lake.path)
    found = {}
    ((stamp,),) = reader.sql("SELECT stage_ts FROM unshared_events").fetchall()
    losses = rows_of(reader.losses(), Loss)
    for seconds in (200, 500):
        (finding,) = ledger_findings(losses, stamp.fromtimestamp(stamp.timestamp() + seconds, stamp.tzinfo))
        found[seconds] = finding.severity
    assert found == {200: Severity.POSSIBLE, 500: Severity.LOST}


METRICS = """\
# TYPE apiserver_audit_event_total counter
apiserver_audit_event_total {events} {stamp}
# TYPE apiserver_audit_error_total counter
apiserver_audit_error_total{{plugin="buffered"}} {errors}
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.7672256e+09
"""


@pytest.mark.parametrize(
    ("events", "errors", "scraped_seconds", "severities"),
    [
        (3, 0, 9, [Severity.NOTE]),  # as many as the lake holds
        (2, 0, 9, [Severity.NOTE]),  # another server wrote some
        (5, 0, 9, [Severity.LOST]),
        (5, 0, 60, [Severity.POSSIBLE]),  # the lake is older than the scrape
        (5, 2, 9, [Severity.LOST, Severity.LOST]),
    ],
)
def test_the_servers_own_counts_are_compared(
    lake: Lake, tmp_path: Path, events: int, errors: int, scraped_seconds: int, severities: list[Severity]
) -> None:
    fill(lake, "webhook", event(1), event(2), event(3), event(10))
    file = tmp_path / "metrics.txt"
    file.write_text(METRICS.format(events=events, errors=errors, stamp=(1_767_225_600 + scraped_seconds) * 1000))
    held = 3 if scraped_seconds == 9 else 4
    findings: list[Finding] = list(metrics_findings(open_lake(lake.path), None, [read_server_metrics(file)]))
    assert [finding.severity for finding in findings] == severities
    assert findings[-1].found == f"API servers counted {events} events, the lake holds {held} of that time"


def test_metrics_of_one_of_several_clusters(lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(lake, "webhook", event(1))
    fill(lake, "webhook", event(1), cluster="other")
    file = tmp_path / "metrics.txt"
    file.write_text(METRICS.format(events=1, errors=0, stamp=1_767_225_601_000))
    start = ["--lake", str(lake.path), "doctor", "--metrics", str(file)]
    assert run(start) == 2
    assert "say with --cluster" in capsys.readouterr().err
    assert run([*start, "--cluster", "third"]) == 2
    assert run([*start, "--cluster", "lab"]) == 0
    file.write_text("up 1\n")
    assert run([*start, "--cluster", "lab"]) == 2
    assert "has no apiserver_audit_event_total" in capsys.readouterr().err
