"""Writers of the forms in which people keep audit events: each makes a file of the same recorded events.

A writer follows the documentation of the tool that it stands for. It knows nothing of how Hindcast reads.
"""

from __future__ import annotations

import base64
import bz2
import csv
import gzip
import io
import json
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
import zstandard

Event = dict[str, Any]
Writer = Callable[[list[bytes]], bytes]
WRITERS: dict[str, Writer] = {}
_STAMP = "2026-11-21T03:24:16.123456789Z"
_KLOG = 'I1121 03:24:16.123456       1 controller.go:132] "Shutting down" reason="none"'
_CRI_PART_BYTES = 700


def form(name: str) -> Callable[[Writer], Writer]:
    def note(writer: Writer) -> Writer:
        WRITERS[name] = writer
        return writer

    return note


def _each(name: str, record: Callable[[str], Any]) -> None:
    """A form with one JSON record a line."""
    WRITERS[name] = lambda lines: b"".join(json.dumps(record(line.decode())).encode() + b"\n" for line in lines)


def _whole(name: str, document: Callable[[list[str]], Any], indent: int | None = None) -> None:
    """A form that is one JSON document."""
    WRITERS[name] = lambda lines: json.dumps(document([line.decode() for line in lines]), indent=indent).encode()


def _prefixed(name: str, prefix: Callable[[int], str]) -> None:
    """A form with something in front of each line, and lines of other logs between."""
    WRITERS[name] = lambda lines: b"".join(prefix(number).encode() + line + b"\n" for number, line in enumerate(lines))


# Plain text.
WRITERS["lines"] = lambda lines: b"\n".join(lines) + b"\n"
WRITERS["lines without a last newline"] = lambda lines: b"\n".join(lines)
WRITERS["CRLF"] = lambda lines: b"\r\n".join(lines) + b"\r\n"
WRITERS["an array on one line"] = lambda lines: b"[" + b",".join(lines) + b"]"
WRITERS["an array, an item a line"] = lambda lines: b"[\n" + b",\n".join(lines) + b"\n]\n"
WRITERS["concatenated"] = b"".join
WRITERS["trailing commas"] = lambda lines: b"".join(line + b",\n" for line in lines)
WRITERS["record separators"] = lambda lines: b"".join(b"\x1e" + line + b"\n" for line in lines)
WRITERS["byte order mark"] = lambda lines: b"\xef\xbb\xbf" + b"\n".join(lines) + b"\n"
WRITERS["UTF-16"] = lambda lines: ("\ufeff" + b"\n".join(lines).decode()).encode("utf-16-le")
WRITERS["klog between lines"] = lambda lines: b"".join(f"{_KLOG}\n".encode() + line + b"\n" for line in lines)
WRITERS["gzip"] = lambda lines: gzip.compress(b"\n".join(lines) + b"\n")
WRITERS["bzip2"] = lambda lines: bz2.compress(b"\n".join(lines) + b"\n")
WRITERS["xz"] = lambda lines: lzma.compress(b"\n".join(lines) + b"\n")
WRITERS["zstd"] = lambda lines: zstandard.ZstdCompressor().compress(b"\n".join(lines) + b"\n")
_whole("an EventList", lambda texts: _event_list(texts))
_whole("a printed EventList", lambda texts: _event_list(texts), indent=2)
WRITERS["printed events"] = lambda lines: b"\n".join(json.dumps(json.loads(line), indent=4).encode() for line in lines)
WRITERS["events with sorted keys"] = lambda lines: b"".join(
    json.dumps(json.loads(line), sort_keys=True).encode() + b"\n" for line in lines
)


def _event_list(texts: list[str]) -> Event:
    return {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": [json.loads(text) for text in texts]}


@form("zip")
def _zip(lines: list[bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logs/audit-1.log", b"\n".join(lines[:4]) + b"\n")
        archive.writestr("logs/audit-2.log", b"\n".join(lines[4:]) + b"\n")
    return target.getvalue()


@form("tar.gz")
def _tar(lines: list[bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for name, part in (("audit-1.log", lines[:4]), ("audit-2.log.xz", lines[4:])):
            data = b"\n".join(part) + b"\n"
            data = lzma.compress(data) if name.endswith("xz") else data
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return target.getvalue()


# YAML. The times of events are texts, as in JSON.
WRITERS["YAML documents"] = lambda lines: yaml.safe_dump_all(map(json.loads, lines), explicit_start=True).encode()
WRITERS["a YAML list"] = lambda lines: yaml.safe_dump([json.loads(line) for line in lines]).encode()
WRITERS["a YAML EventList"] = lambda lines: yaml.safe_dump(_event_list([line.decode() for line in lines]), sort_keys=False).encode()


# Tables.
def _table(name: str, row: Callable[[str], dict[str, str]], delimiter: str = ",", newline: str = "\n") -> None:
    def write(lines: list[bytes]) -> bytes:
        rows = [row(line.decode()) for line in lines]
        target = io.StringIO()
        writer = csv.DictWriter(
            target, list(dict.fromkeys(name for row in rows for name in row)), delimiter=delimiter, lineterminator=newline
        )
        writer.writeheader()
        writer.writerows(rows)
        return target.getvalue().encode()

    WRITERS[name] = write


_table("CloudWatch Logs Insights, CSV", lambda text: {"@timestamp": "2026-11-21 03:24:16.123", "@message": text})
_table("a single column, CSV", lambda text: {"@message": text})
_table("Log Analytics, CSV", lambda text: {"TimeGenerated [UTC]": "11/21/2026, 3:24:16.123 AM", "log_s": text}, newline="\r\n")
_table("Athena, TSV", lambda text: {"timestamp": "1700000000", "stream": "kube-apiserver-audit", "message": text}, delimiter="\t")
_table("Splunk, CSV", lambda text: {"_time": _STAMP, "_raw": text, "host": "m1", "source": "/var/log/audit.log"})

_AKS = {
    "Annotations": "annotations",
    "AuditId": "auditID",
    "Level": "level",
    "ObjectRef": "objectRef",
    "RequestObject": "requestObject",
    "RequestReceivedTime": "requestReceivedTimestamp",
    "RequestUri": "requestURI",
    "ResponseObject": "responseObject",
    "ResponseStatus": "responseStatus",
    "SourceIps": "sourceIPs",
    "Stage": "stage",
    "StageReceivedTime": "stageTimestamp",
    "User": "user",
    "UserAgent": "userAgent",
    "Verb": "verb",
}


def _aks_row(text: str) -> Event:
    event = json.loads(text)
    row = {column: event[name] for column, name in _AKS.items() if name in event}
    return {"TenantId": "0", "TimeGenerated": _STAMP, **row, "PodName": "kube-apiserver-1", "Type": "AKSAudit"}


def _text_cells(row: Event) -> dict[str, str]:
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in row.items()}


def _aks_cells(text: str) -> dict[str, str]:
    return dict.fromkeys(("TenantId", "TimeGenerated", *_AKS, "PodName", "Type"), "") | _text_cells(_aks_row(text))


_table("AKSAudit, CSV", _aks_cells)
_whole("AKSAudit, rows of the az tool", lambda texts: [_text_cells(_aks_row(text)) for text in texts], indent=2)
_each("AKSAudit, a row a line", _aks_row)


def _query_tables(texts: list[str]) -> Event:
    columns = ["TimeGenerated", *_AKS]
    rows = [[_aks_row(text).get(name) for name in columns] for text in texts]
    return {"tables": [{"name": "PrimaryResult", "columns": [{"name": name, "type": "dynamic"} for name in columns], "rows": rows}]}


_whole("AKSAudit, the query API", _query_tables)


def _parquet(rows: list[Event]) -> bytes:
    target = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), target)
    return target.getvalue()


WRITERS["Parquet with a column of text"] = lambda lines: _parquet([{"ts": 1, "message": line.decode()} for line in lines])
WRITERS["Parquet of AKSAudit"] = lambda lines: _parquet([_text_cells(_aks_row(line.decode())) for line in lines])


# Nodes.
def _cri(text: str, *, part_bytes: int) -> str:
    parts = [text[at : at + part_bytes] for at in range(0, len(text), part_bytes)]
    return "".join(f"{_STAMP} stdout {'P' if part is not parts[-1] else 'F'} {part}\n" for part in parts)


@form("CRI with parts")
def _cri_parts(lines: list[bytes]) -> bytes:
    records = [f"{_STAMP} stderr F {_KLOG}\n" + _cri(line.decode(), part_bytes=_CRI_PART_BYTES) for line in lines]
    return "".join(records).encode()


@form("CRI, two streams")
def _cri_streams(lines: list[bytes]) -> bytes:
    cut = [(line.decode()[:100], line.decode()[100:]) for line in lines]
    noise = f"{_STAMP} stderr F Flag --x has been deprecated\n"
    return "".join(f"{_STAMP} stdout P {first}\n{noise}{_STAMP} stdout F {rest}\n" for first, rest in cut).encode()


@form("Docker json-file with parts")
def _docker(lines: list[bytes]) -> bytes:
    records = []
    for line in lines:
        text = line.decode() + "\n"
        for at in range(0, len(text), _CRI_PART_BYTES):
            records.append({"log": text[at : at + _CRI_PART_BYTES], "stream": "stdout", "time": _STAMP})
        records.append({"log": _KLOG + "\n", "stream": "stderr", "time": _STAMP})
    return b"".join(json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records)


@form("journalctl -o export")
def _journal(lines: list[bytes]) -> bytes:
    entries = []
    for number, line in enumerate(lines):
        head = f"__CURSOR=s=1;i={number}\n__REALTIME_TIMESTAMP=1700000000000000\n".encode()
        binary = b"MESSAGE\n" + len(line).to_bytes(8, "little") + line + b"\n"
        entries.append(head + (binary if number % 2 else b"MESSAGE=" + line + b"\n") + b"_COMM=kube-apiserver\n\n")
    return b"".join(entries)


_each("journalctl -o json", lambda text: {"__CURSOR": "s=1", "_COMM": "kube-apiserver", "MESSAGE": text, "PRIORITY": "6"})
_prefixed("journalctl", lambda number: f"Nov 21 03:24:{number:02} m1 kube-apiserver[812]: ")
_prefixed("syslog of RFC 3164", lambda number: f"<134>Nov 21 03:24:{number:02} m1 kube-audit: ")
_prefixed("syslog of RFC 5424", lambda number: f'<134>1 {_STAMP} m1 kube-apiserver 812 - [meta x="{number}"] ')
_prefixed("oc adm node-logs", lambda number: f"ip-10-0-{number % 3}-7.eu-west-1.compute.internal ")
_prefixed("kubectl logs --prefix", lambda number: "[pod/kube-apiserver-m1/kube-apiserver] ")
_prefixed("talosctl logs", lambda number: "172.20.0.2: ")
_prefixed("Fluentd's file output", lambda number: f"2026-11-21T03:24:{number:02}+00:00\tkube.audit\t")
_prefixed("logcli's default output", lambda number: f'2026-11-21T03:24:{number:02}Z {{app="audit", node="m1"}} ')


# Shippers and search engines.
_each("Fluent Bit, text", lambda text: {"@timestamp": _STAMP, "log": text, "kubernetes": {"pod_name": "kube-apiserver-m1"}})
_each("Fluent Bit, parsed", lambda text: {"date": 1700000000.1, "audit": json.loads(text), "cluster": "c"})
_each("Filebeat", lambda text: {"@timestamp": _STAMP, "@metadata": {"beat": "filebeat"}, "agent": {"id": "1"}, "message": text})
_each("Elastic's audit integration", lambda text: {"@timestamp": _STAMP, "agent": {}, "kubernetes": {"audit": json.loads(text)}})
_each("Vector", lambda text: {"file": "/var/log/audit.log", "host": "m1", "message": text, "source_type": "file"})
_each("logcli -o jsonl", lambda text: {"labels": {"app": "audit"}, "line": text, "timestamp": _STAMP})
_whole(
    "Loki's query API",
    lambda texts: {
        "status": "success",
        "data": {"resultType": "streams", "result": [{"stream": {"app": "a"}, "values": [["17000", text] for text in texts]}]},
    },
)
_each("elasticdump", lambda text: {"_index": "audit", "_id": "1", "_score": 1, "_source": json.loads(text)})
_whole(
    "Elasticsearch's search API",
    lambda texts: {
        "took": 3,
        "hits": {"total": {"value": 9}, "hits": [{"_index": "audit", "_source": {"message": text}} for text in texts]},
    },
    indent=1,
)
WRITERS["Elasticsearch's bulk file"] = lambda lines: b"".join(b'{"index":{"_index":"audit"}}\n' + line + b"\n" for line in lines)
_each("Splunk, JSON", lambda text: {"preview": False, "offset": 1, "result": {"_raw": text, "_time": _STAMP}})
_each("Splunk's HTTP collector", lambda text: {"time": 1700000000, "sourcetype": "kube:audit", "event": json.loads(text)})
_each("Datadog", lambda text: {"id": "A", "content": {"attributes": json.loads(text), "tags": ["env:prod"], "message": "x"}})


def _otlp(body: Callable[[str], Any]) -> Callable[[list[str]], Any]:
    return lambda texts: {
        "resourceLogs": [
            {
                "resource": {"attributes": [{"key": "k8s.cluster.name", "value": {"stringValue": "c"}}]},
                "scopeLogs": [{"scope": {}, "logRecords": [{"timeUnixNano": "17", "body": body(text)} for text in texts]}],
            }
        ]
    }


def _any_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": name, "value": _any_value(item)} for name, item in value.items()]}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_any_value(item) for item in value]}}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {} if value is None else {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}


_whole("OTLP, text", _otlp(lambda text: {"stringValue": text}))
_whole("OTLP, structured", _otlp(lambda text: _any_value(json.loads(text))))


# Clouds.
def _batch(texts: list[str]) -> Event:
    events = [{"id": str(number), "timestamp": 1700000000000, "message": text} for number, text in enumerate(texts)]
    return {
        "messageType": "DATA_MESSAGE",
        "owner": "1",
        "logGroup": "/aws/eks/prod-1/cluster",
        "logStream": "kube-apiserver-audit-1",
        "logEvents": events,
    }


def _packed(texts: list[str]) -> str:
    return base64.b64encode(gzip.compress(json.dumps(_batch(texts)).encode())).decode()


_whole("EKS subscription", _batch)
_whole("EKS, event of a Lambda function", lambda texts: {"awslogs": {"data": _packed(texts)}})
_whole("EKS, Kinesis records", lambda texts: {"Records": [{"kinesis": {"partitionKey": "1", "data": _packed(texts)}}]}, indent=2)
_whole("EKS, filter-log-events", lambda texts: {"events": _batch(texts)["logEvents"], "searchedLogStreams": []}, indent=4)
_whole(
    "EKS, get-query-results",
    lambda texts: {
        "results": [[{"field": "@message", "value": text}, {"field": "@ptr", "value": "C"}] for text in texts],
        "status": "Complete",
    },
    indent=4,
)
_whole(
    "CloudWatch's console, JSON", lambda texts: [{"@timestamp": "2026-11-21 03:24:16.1", "@message": json.loads(t)} for t in texts]
)
_prefixed("EKS, export to S3", lambda number: f"2026-11-21T03:24:{number:02}.000Z ")


def _diagnostic(text: str) -> Event:
    resource = "/SUBSCRIPTIONS/0/RESOURCEGROUPS/G/PROVIDERS/MICROSOFT.CONTAINERSERVICE/MANAGEDCLUSTERS/PROD-2"
    return {"category": "kube-audit", "operationName": "x", "resourceId": resource, "properties": {"log": text, "stream": "stdout"}}


_each("AKS, storage PT1H", _diagnostic)
_whole("AKS, Event Hub", lambda texts: {"records": [_diagnostic(text) for text in texts]})
_whole("Log Analytics, rows of the az tool", lambda texts: [{"TimeGenerated": _STAMP, "log_s": text} for text in texts], indent=2)


def _viaq(text: str) -> Event:
    event = json.loads(text)
    level = event.pop("level")
    return {
        "@timestamp": _STAMP,
        "log_type": "audit",
        "level": "info",
        "k8s_audit_level": level,
        **event,
        "openshift": {"sequence": 1},
    }


_each("OpenShift, ViaQ", _viaq)


# Forms inside forms: encodings, records of brokers, and tables as other tools lay them out.
WRITERS["UTF-16 without a mark"] = lambda lines: (b"\n".join(lines) + b"\n").decode().encode("utf-16-be")
WRITERS["compressed twice"] = lambda lines: zstandard.compress(gzip.compress(b"\n".join(lines) + b"\n"))
WRITERS["NUL between events"] = b"\0".join
WRITERS["commas between events on one line"] = b", ".join
_each("text in text in text", lambda text: {"log": json.dumps({"a": json.dumps({"b": text})})})
_each("base64 of a line with a prefix", lambda text: {"value": _b64(f"{_STAMP} {text}")})
_each("base64 of an array, in lines", lambda text: {"value": base64.encodebytes(f"[{text}]".encode()).decode()})
_each("base64 for URLs without padding", lambda text: {"v": base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")})
_each("base64 of zlib", lambda text: {"value": base64.b64encode(zlib.compress(text.encode())).decode()})
_each("base64 of base64", lambda text: {"data": _b64(json.dumps({"message": {"data": _b64(text)}}))})
_each("journalctl -o json, bytes", lambda text: {"__CURSOR": "s=1", "MESSAGE": list(text.encode())})
_each("Firehose's HTTP endpoint", lambda text: {"requestId": "1", "timestamp": 1, "records": [{"data": _b64(text)}]})
_each("Pub/Sub, pull", lambda text: {"ackId": "a", "message": {"data": _b64(text), "messageId": "1"}})
_each("OTLP, attributes", lambda text: {"body": {"stringValue": "x"}, "attributes": _attributes(text)})
_each("OTLP with the names of protobuf", lambda text: _snake({"body": _any_value(json.loads(text))}))
_each("columns with dots", lambda text: _flat(text, ".", "kubernetes.audit."))
_each("columns with underscores", lambda text: _flat(text, "_", ""))
_whole(
    "pages of a query",
    lambda texts: {"page1": [{"m": text} for text in texts[:4]], "note": ["x"], "page2": [{"m": text} for text in texts[4:]]},
    indent=2,
)
_whole(
    "streams by name",
    lambda texts: {f"k{number}": {"stream": {}, "values": [["17", text]]} for number, text in enumerate(texts)},
    indent=1,
)
WRITERS["YAML of texts"] = lambda lines: yaml.safe_dump_all([{"ts": 1, "message": line.decode()} for line in lines]).encode()
WRITERS["YAML of texts under a name"] = lambda lines: (
    b"status: ok\nlogs:\n" + yaml.safe_dump([{"ts": 1, "message": line.decode()} for line in lines * 20]).encode() + b"next: x\n"
)
WRITERS["YAML of base64"] = lambda lines: yaml.safe_dump([{"data": _b64(line.decode())} for line in lines]).encode()
WRITERS["YAML with braces"] = lambda lines: b"".join(
    b"---\n" + yaml.safe_dump(json.loads(line), default_flow_style=True).encode() for line in lines
)
WRITERS["a name in front of each line"] = lambda lines: b"".join(b"m1: " + line + b"\n" for line in lines)
WRITERS["octet counting of RFC 6587"] = lambda lines: b"".join(
    str(len(line) + 30).encode() + f" <134>1 {_STAMP[:19]}Z m k - - ".encode() + line for line in lines
)
WRITERS["a tail behind each event"] = lambda lines: b"".join(line + b" stream=stdout pod=a\n" for line in lines)
WRITERS["colours of a terminal"] = lambda lines: b"".join(b"\x1b[36mkube |\x1b[0m " + line + b"\x1b[0m\n" for line in lines)
_table("columns between bars", lambda text: {"time": _STAMP, "message": text}, delimiter="|")
_table("columns of fields, CSV", lambda text: _text_cells(_flat(text, ".", "")))


@form("CSV of Excel, without a header")
def _excel(lines: list[bytes]) -> bytes:
    target = io.StringIO()
    csv.writer(target).writerows([_STAMP, line.decode()] for line in lines)
    return b"sep=,\r\n" + target.getvalue().encode()


@form("Docker records with other keys first")
def _docker_sorted(lines: list[bytes]) -> bytes:
    records = [json.loads(record) for record in _docker(lines).splitlines()]
    return b"".join(json.dumps({"stream": each["stream"], "log": each["log"]}).encode() + b"\n" for each in records)


@form("Fluent Bit, parts of CRI")
def _fluent_bit_parts(lines: list[bytes]) -> bytes:
    records = []
    for line in lines:
        text = line.decode()
        for at in range(0, len(text), _CRI_PART_BYTES):
            tag = "P" if at + _CRI_PART_BYTES < len(text) else "F"
            records.append({"time": _STAMP, "stream": "stdout", "logtag": tag, "log": text[at : at + _CRI_PART_BYTES]})
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@form("Parquet with base64 in lists of structs")
def _parquet_nested(lines: list[bytes]) -> bytes:
    return _parquet([{"logs": [{"data": _b64(line.decode())} for line in lines]}])


@form("an archive in an archive")
def _nested_archive(lines: list[bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("gathered/inner.tar.gz", _tar(lines))
        archive.writestr("gathered/readme", "nothing")
    return zstandard.compress(target.getvalue())


@form("a tar archive of before POSIX")
def _old_tar(lines: list[bytes]) -> bytes:
    data = b"\n".join(lines) + b"\n"
    entry = tarfile.TarInfo("audit.log")
    entry.size = len(data)
    head = bytearray(entry.tobuf(tarfile.USTAR_FORMAT))
    head[257:265] = bytes(8)  # the magic number
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + data + bytes(-len(data) % 512 + 1024)


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _attributes(text: str) -> list[Event]:
    return [{"key": name, "value": _any_value(value)} for name, value in json.loads(text).items()]


def _snake(value: Any) -> Any:
    names = {"kvlistValue": "kvlist_value", "arrayValue": "array_value", "stringValue": "string_value"}
    names |= {"intValue": "int_value", "boolValue": "bool_value", "doubleValue": "double_value"}
    if isinstance(value, dict):
        return {names.get(name, name): _snake(item) for name, item in value.items()}
    return [_snake(item) for item in value] if isinstance(value, list) else value


def _flat(text: str, mark: str, before: str) -> Event:
    """An event whose small objects are columns, as search engines and spreadsheets flatten them."""
    event = json.loads(text)
    inner = {name: event.pop(name) for name in ("user", "objectRef", "responseStatus") if name in event}
    columns = {f"{name}{mark}{key}": value for name, fields in inner.items() for key, value in fields.items()}
    return {f"{before}{name}": value for name, value in (event | columns).items()}


def recorded_at(event: Event) -> datetime:
    """The time of an event's stage."""
    return datetime.fromisoformat(event["stageTimestamp"].replace("Z", "+00:00")).astimezone(UTC)
