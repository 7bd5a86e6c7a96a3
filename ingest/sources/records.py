"""The names of the records that log shippers and services wrap events in. People read them; finding an event needs none of them."""

from __future__ import annotations

PREFIXED = "lines with a prefix"  # a time, a host or a tag, as syslog and `kubectl logs --prefix` write them
# The first row whose words are all among the first bytes of a record names it.
_NAMES: tuple[tuple[str, tuple[bytes, ...]], ...] = (
    ("OpenTelemetry log records", (b'"resourceLogs"',)),
    ("OpenTelemetry log records", (b'"stringValue"',)),
    ("Elasticsearch or OpenSearch hits", (b'"hits"',)),
    ("Elasticsearch or OpenSearch hits", (b'"_source"',)),
    ("Splunk events", (b'"_raw"',)),
    ("Splunk events", (b'"sourcetype"',)),
    ("CloudWatch Logs Insights results", (b'"field"', b'"value"')),
    ("CloudWatch Logs Insights rows", (b'"@message"',)),
    ("CloudWatch Logs", (b'"awslogs"',)),
    ("Kinesis records", (b'"kinesis"',)),
    ("Kinesis records", (b'"Data"',)),
    ("Pub/Sub messages", (b'"message"', b'"data"')),
    ("Loki query results", (b'"resultType"',)),
    ("Loki query results", (b'"streams"',)),
    ("Loki query results", (b'"line"', b'"labels"')),
    ("Datadog logs", (b'"attributes"',)),
    ("Filebeat records", (b'"agent"',)),
    ("Filebeat records", (b'"@metadata"',)),
    ("Fluent Bit records", (b'"log"',)),
    ("journald records", (b'"__CURSOR"',)),
    ("journald records", (b'"MESSAGE"',)),
    ("Vector records", (b'"source_type"',)),
    ("Azure query results", (b'"tables"', b'"columns"')),
    ("AKSAudit rows", (b'"AuditId"',)),
    ("AKSAudit rows", (b'"RequestUri"',)),
    ("Log Analytics rows", (b'"log_s"',)),
    ("Log Analytics rows", (b'"TimeGenerated"',)),
)
_HEAD_BYTES = 4000


def form_of_record(value: bytes) -> str:
    """The name of a record with events inside."""
    head = value[:_HEAD_BYTES]
    return next((name for name, words in _NAMES if all(word in head for word in words)), "records with events inside")
