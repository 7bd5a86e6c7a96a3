"""`hindcast init`: the files that connect a cluster to the sink; `--check` reviews the audit policy in force."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from api.context import Context
from api.printing.output import Format
from ingest.errors import EvidenceError, InputError

from .parts import options

if TYPE_CHECKING:
    from api.checks.withheld import StateKnown, Withheld
    from api.printing.output import Table
    from api.sink.certificates import Certificates
    from api.sink.webhook_files import Sink
    from ingest.server.audit_policy import AuditPolicy


POLICY, KUBECONFIG, IDENTITIES = "audit-policy.yaml", "audit-webhook.kubeconfig", "identities"
CERTIFICATE, KEY = "sink.crt", "sink.key"
_GATE = 1

# Flags of kube-apiserver with their reasons. {out} is the folder as the API server sees it. Defaults: kubernetes/apiserver
# pkg/server/options/audit.go and plugin/pkg/audit/buffered/buffered.go.
_FLAGS = (
    ("--audit-policy-file={out}/" + POLICY, "the audit policy; the server reads it once, at its start"),
    ("--audit-webhook-config-file={out}/" + KUBECONFIG, "where it is sent"),
    ("--audit-webhook-mode=batch", "the default: no request waits for the sink"),
    ("--audit-webhook-batch-max-wait=5s", "default 30s: a stopping server may lose unsent events"),
    ("--audit-webhook-batch-max-size=400", "the default; one event that cannot be encoded costs its whole batch"),
    (
        "--audit-webhook-batch-buffer-size=50000",
        "default 10000, which is 2.5 s at the sending limit. Batches that do not fit are dropped: the server logs `audit buffer "
        'queue blocked` and counts it in apiserver_audit_error_total{plugin="buffered"}; the sink cannot know',
    ),
    (
        "--audit-webhook-initial-backoff=30s",
        "default 10s: a batch is tried five times, with waits of 10, 15, 22.5 and 34 s, and then dropped, after some two minutes "
        "without a sink. 30s makes that four to five minutes, time to restart it; batches wait in the server's memory meanwhile",
    ),
    (
        "--audit-webhook-batch-throttle-qps=10",
        "the default, batches a second and server; raise it when `hindcast doctor` finds bursts (-burst=15 goes with it)",
    ),
    (
        "--audit-webhook-truncate-enabled=false",
        "the default: a truncated event loses both bodies. If you must, set -truncate-max-event-size to 3 MiB",
    ),
    (
        "--audit-log-path=/var/log/kubernetes/audit/audit.log",
        "a second copy next to the webhook: `hindcast ingest` stores events that the webhook lost; `hindcast doctor` counts them",
    ),
    ("--audit-log-maxsize=100 --audit-log-maxbackup=20", "up to 1.35 rotated files are kept for ever without the second"),
)


def command(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("hindcast-init"),
    cluster: Annotated[str, typer.Option(help="The name under which the cluster's events are kept.")] = "default",
    server: Annotated[str, typer.Option(help="Where the API server reaches `hindcast serve`.")] = "http://127.0.0.1:7443",
    certificate_authority: Annotated[
        str, typer.Option(help="Path on the control plane of the PEM file of the authority that signed the sink's certificate.")
    ] = "",
    make_certificate: Annotated[
        bool, typer.Option("--make-certificate", help="Make a certificate for the sink, with an authority for this one only.")
    ] = False,
    client_certificate: Annotated[
        str, typer.Option(help="Path on the control plane of a client certificate, to use in place of a token.")
    ] = "",
    client_key: Annotated[str, typer.Option(help="Path on the control plane of the key of the client certificate.")] = "",
    client_name: Annotated[str, typer.Option(help="The certificate's common name. [default: apiserver-CLUSTER]")] = "",
    recorder: Annotated[
        bool, typer.Option("--recorder", help="Also write the webhook that records what admission saw, for managed clusters.")
    ] = False,
    filename: options.Policies = None,
    record_reads: Annotated[
        bool, typer.Option("--record-reads", help="Also record reads, without bodies; roles among the manifests of -f imply it.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files; a replaced token is no longer accepted.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; say which evidence the audit policy withholds.")] = False,
    audit_policy: Annotated[
        Path | None, typer.Option(help="With --check: the audit policy in force, to name the rule that decides.")
    ] = None,
    kubernetes_version: options.KubernetesVersion = options.DEFAULT_VERSION,
    limit: options.Limit = None,
    output: options.Output = Format.TABLE,
) -> int:
    """Write an audit policy, the webhook's kubeconfig and its token. With --check, say what the audit policy in force withholds."""
    from api import asked_values
    from api.printing.output import render
    from api.printing.targets import check_folder
    from api.sink.certificates import make_certificates
    from api.sink.webhook_files import Sink, identities_text, kubeconfig_text, new_token, write_new
    from ingest.sink import is_cluster_name

    own: Context = context.obj
    needed = _needed(filename, record_reads)
    if check:
        given = _read_given(audit_policy, asked_values.parse_version(kubernetes_version))
        return _check(own, needed, given, output, limit)
    if audit_policy is not None:
        raise InputError("--audit-policy is for --check", "add --check; without it a policy is written to --out")
    if not is_cluster_name(cluster):
        raise InputError(
            f"--cluster: {cluster!r} does not name a cluster", "use lower-case letters, digits, -, _ and ., at most 63"
        )
    check_folder("--out", out)
    sink = Sink(cluster, server, certificate_authority, client_certificate, client_key, client_name)
    made = make_certificates(sink.host, datetime.now(UTC)) if make_certificate else None
    if made is not None:
        sink = replace(sink, authority_pem=made.authority)
    if recorder and not sink.is_tls:
        raise InputError(f"--recorder: {server} speaks no TLS", "API servers ask webhooks over https:// alone")
    token, recorder_token = new_token(), new_token()
    files = {
        out / POLICY: (needed, 0o644),
        out / KUBECONFIG: (kubeconfig_text(sink, token), 0o600),
        out / IDENTITIES: (identities_text(sink, token, recorder_token if recorder else ""), 0o600),
    }
    if recorder:
        files |= _recorder_files(out, sink, recorder_token)
    if made is not None:
        files |= {out / CERTIFICATE: (made.certificate + made.authority, 0o644), out / KEY: (made.key, 0o600)}
    write_new(files, force=force)
    render([_files_table(out, sink, made, [*files]), _flags_table(out)], output)
    return 0


def _recorder_files(out: Path, sink: Sink, token: str) -> dict[Path, tuple[str, int]]:
    from api.sink.recorder_files import (
        ADMISSION,
        ADMISSION_KUBECONFIG,
        RECORDER,
        admission_kubeconfig_text,
        admission_text,
        recorder_text,
    )

    files = {out / RECORDER: (recorder_text(sink, token), 0o600)}
    if sink.client_certificate:
        files[out / ADMISSION] = (admission_text(str(out)), 0o644)
        files[out / ADMISSION_KUBECONFIG] = (admission_kubeconfig_text(sink), 0o644)
    return files


def _files_table(out: Path, sink: Sink, made: Certificates | None, written: Sequence[Path]) -> Table:
    from api.printing.output import Column, Table
    from api.sink.recorder_files import ADMISSION, ADMISSION_KUBECONFIG, RECORDER

    rows = [
        [str(out / POLICY), "kube-apiserver", "the audit policy, with the reason for each rule"],
        [str(out / KUBECONFIG), "kube-apiserver", f"posts to {sink.url}; holds a secret, mode 0600"],
        [str(out / IDENTITIES), "hindcast serve --identities", "the other half of that secret, mode 0600"],
    ]
    shows = "API servers show a certificate" if sink.client_certificate else "holds a token of its own in the path, mode 0600"
    rows += [[str(out / RECORDER), "kubectl apply -f", f"the recorder webhook; {shows}"]] if out / RECORDER in written else []
    if out / ADMISSION in written:
        rows.append([str(out / ADMISSION), "kube-apiserver", "for --admission-control-config-file: shows the certificate"])
        rows.append([str(out / ADMISSION_KUBECONFIG), "kube-apiserver", "the file that it names"])
    if made is not None:
        until = f"valid until {made.expires:%Y-%m-%d}; then run this again with --force"
        rows.append([str(out / CERTIFICATE), "hindcast serve --tls-certificate", until])
        rows.append([str(out / KEY), "hindcast serve --tls-key", "its key, mode 0600"])
    notes = list(_notes(sink))
    if out / RECORDER in written and not sink.authority_pem:
        notes.append(f"{RECORDER} has no caBundle: add the authority of the sink's certificate, or give --make-certificate")
    columns = [Column("file"), Column("for_whom", "FOR"), Column("what")]
    return Table("files", columns, rows, "Written", (*notes, f"start the sink with: {_serve(out, sink, made)}"))


def _serve(out: Path, sink: Sink, made: Certificates | None) -> str:
    """The command to run on the other side."""
    from api.settings import Settings, is_loopback

    certificate, key = (str(out / CERTIFICATE), str(out / KEY)) if made is not None else ("FILE", "FILE")
    host = " --host 0.0.0.0" if sink.is_tls and not is_loopback(sink.host) else ""
    port = "" if sink.port == Settings(lake=Path("lake")).port else f" --port {sink.port}"
    tls = f" --tls-certificate {certificate} --tls-key {key}" if sink.is_tls else ""
    return f"hindcast serve{host}{port}{tls} --identities {out / IDENTITIES}"


def _notes(sink: Sink) -> Iterator[str]:
    yield "a kube-apiserver that runs as a pod needs both files mounted; it reads them when it starts"
    if not sink.is_tls:
        yield "over plain HTTP an API server sends no token: use https:// and --tls-certificate, except on the same machine"
    elif not (sink.certificate_authority or sink.authority_pem):
        yield "without --certificate-authority or --make-certificate the API server trusts its machine's authorities only"
    if sink.client_certificate:
        yield "client certificates need `hindcast serve --client-ca`"


def _flags_table(out: Path) -> Table:
    from api.printing.output import Column, Table

    rows = [[flag.format(out=out), reason] for flag, reason in _FLAGS]
    return Table("flags", [Column("flag"), Column("reason", "WHY")], rows, "Flags of kube-apiserver")


def _read_given(path: Path | None, version: tuple[int, int]) -> AuditPolicy | None:
    from ingest.server.audit_policy import parse_audit_policy

    if path is None:
        return None
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--audit-policy: {path} cannot be read: {error}") from None
    return parse_audit_policy(text, str(path), version)


def _needed(paths: list[Path] | None, record_reads: bool) -> str:
    """The audit policy for the manifests of files, or for any policy. Roles and chains judge reads too."""
    from api.given import given_for_any
    from api.stages.validating.coverage import coverage_of
    from ingest.server.recommended import audit_policy_text
    from pipeline.stages.registry import AUTHORIZATION, CONDITIONS, VALIDATING

    from .parts.texts import read_texts

    if not paths:
        return audit_policy_text(record_reads=record_reads)
    given = given_for_any(read_texts(paths))
    judges_reads = any(stage in (AUTHORIZATION, CONDITIONS) for stage, _ in given.stages)
    # The manifests of other stages may concern any write.
    policies = given.rules_of(VALIDATING) if all(stage is VALIDATING for stage, _ in given.stages) else None
    coverage = coverage_of(policies) if policies is not None else None
    return audit_policy_text(coverage, record_reads=record_reads or judges_reads)


def _check(own: Context, wanted: str, given: AuditPolicy | None, output: Format, limit: int | None) -> int:
    from api.checks.checkup import ledger_findings
    from api.checks.withheld import state_known, withheld
    from api.printing.output import render
    from ingest.server.audit_policy import parse_audit_policy
    from pipeline.requests.kept.whole import losses_of
    from queries import open_lake
    from queries.ledger import loss_answer
    from queries.rows import Loss

    needed = parse_audit_policy(wanted, POLICY)
    reader = open_lake(own.lake)
    try:
        rows = list(withheld(reader, needed, given))
        tables = [_withheld_table(rows, given), _state_table(list(state_known(reader)))]
        is_empty = not reader.rows("SELECT 1 FROM events LIMIT 1")
        ledger = ledger_findings([Loss(**row) for row in losses_of(reader).to_pylist()], datetime.now(UTC))
    finally:
        reader.close()
    render(tables, output, limit=limit)
    code = EvidenceError.exit_code if is_empty else _GATE if rows else 0
    found = "the audit policy withholds evidence that a replay needs"
    if is_empty:
        found = "the lake holds no events"
    elif not rows:
        known = loss_answer((each.severity, each.found) for each in ledger)
        found = f"each recorded write has the level that a replay needs; {known}"
    own.tell(f"init --check: {found}; exit code {code}")
    return code


def _withheld_table(rows: list[Withheld], given: AuditPolicy | None) -> Table:
    from api.printing.output import Column, Table

    names = ("cluster", "resource", "verb", "requests", "recorded", "needed")
    columns = [Column(name, number=name == "requests") for name in names]
    columns.append(Column("rule", "DECIDED BY", wide=given is None))
    notes = list(given.warnings) if given else []
    if rows:
        notes.append(
            "let rules with the needed level come first in the audit policy: the first that matches decides; `hindcast init`"
        )
    notes.append("requests at level None leave no event: `hindcast doctor` has their traces (unseen_write)")
    cells = [[getattr(row, column.key) for column in columns] for row in rows]
    return Table("withheld", columns, cells, "Recorded at a lower level than a replay needs", notes)


def _state_table(rows: list[StateKnown]) -> Table:
    from api.printing.output import Column, Table

    names = ("cluster", "what", "writes", "with_body", "listed", "verdict")
    prose, numbers = ("what", "verdict"), ("writes", "with_body", "listed")
    columns = [Column(name, number=name in numbers, prose=name in prose, may_go=name == "with_body") for name in names]
    cells = [[getattr(row, name) for name in names] for row in rows]
    return Table("state", columns, cells, "State that decides how policies are evaluated")
