"""Credentials are taken out of raw events before any disk, and everything else stays as it was, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import InputError, LakeError
from ingest.eventlist import parse_event_list
from ingest.notes import PREFIX, REDACTED
from ingest.redaction.forms import clean_text, may_hold_by_form
from ingest.redaction.key import load_or_create_key
from ingest.redaction.redact import DEFAULT_RESOURCES, Redactor
from ingest.redaction.uris import clean_uri, uri_needs_a_look
from tests.drawing import MANY

# How a line carries the note.
ANNOTATION = PREFIX + REDACTED

POSTS = Path(__file__).parents[1] / "cases" / "posts"
SECRET = "c3VwZXItc2VjcmV0"


def event(**changes: Any) -> dict[str, Any]:
    """An event in the field order of the API server."""
    base: dict[str, Any] = {
        "level": "RequestResponse",
        "auditID": "a-1",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/shop/pods",
        "verb": "create",
        "user": {"username": "jo"},
        "objectRef": {"resource": "pods", "namespace": "shop", "apiVersion": "v1"},
        "requestObject": {"kind": "Pod", "note": SECRET},
        "responseObject": {"kind": "Pod", "note": SECRET},
        "annotations": {"a/b": "c"},
    }
    return {name: value for name, value in {**base, **changes}.items() if value is not None}


def line(value: dict[str, Any], *, compact: bool = True) -> bytes:
    return json.dumps(value, separators=(",", ":") if compact else None).encode()


def ref(resource: str, group: str = "", subresource: str = "") -> dict[str, str]:
    parts = {"resource": resource, "namespace": "shop", "apiGroup": group, "subresource": subresource}
    return {name: value for name, value in parts.items() if value}


@pytest.mark.parametrize(
    ("reference", "hidden"),
    [
        (ref("secrets"), True),
        (ref("secrets", subresource="status"), True),
        (ref("tokenreviews", "authentication.k8s.io"), True),
        (ref("serviceaccounts", subresource="token"), True),
        (ref("serviceaccounts"), False),
        (ref("certificatesigningrequests", "certificates.k8s.io", "approval"), True),
        (ref("oauthaccesstokens", "oauth.openshift.io"), True),
        (ref("pods"), False),
        (ref("secretstores", "external-secrets.io"), False),
        (None, False),
    ],
)
@pytest.mark.parametrize("compact", [True, False])
def test_bodies_of_listed_resources_are_dropped(reference: dict[str, str] | None, hidden: bool, compact: bool) -> None:
    before = line(event(objectRef=reference), compact=compact)
    after = Redactor().apply(before)
    if not hidden:
        assert after is before
        return
    assert SECRET.encode() not in after
    expected = event(objectRef=reference, requestObject=None, responseObject=None)
    # What a policy or a webhook says of it may quote it; of a token, admission sees the request alone.
    quotes = (reference or {}).get("subresource") != "token"
    notes = "requestObject,responseObject" + (",annotations" if quotes else "")
    expected["annotations"] = {"a/b": "REDACTED" if quotes else "c", ANNOTATION: notes}
    assert json.loads(after) == expected


def test_an_event_without_bodies_stays_as_it_is() -> None:
    annotations = {"authorization.k8s.io/decision": "allow"}
    before = line(event(objectRef=ref("secrets"), annotations=annotations, requestObject=None, responseObject=None))
    assert Redactor().apply(before) is before


@pytest.mark.parametrize(
    "order",
    [
        ["requestObject", "objectRef"],
        ["annotations", "objectRef", "requestObject"],
        ["requestObject", "requestURI", "objectRef"],
    ],
)
def test_no_order_of_fields_hides_a_secret(order: list[str]) -> None:
    # The body names another resource under the very key that the fast path looks for.
    whole = event(objectRef=ref("secrets"), requestObject={"objectRef": {"resource": "pods"}, "data": SECRET})
    shuffled = {name: whole[name] for name in order} | whole
    after = Redactor().apply(line(shuffled))
    assert SECRET.encode() not in after


def test_escapes_and_foreign_values_hide_no_secret() -> None:
    before = line(event(objectRef=ref("secrets"))).replace(b'"secrets"', b'"secr\\u0065ts"')
    assert SECRET.encode() not in Redactor().apply(before)
    decoy = line(event(objectRef=ref("secrets"), user={"username": '"objectRef":{"resource":"pods"'}))
    assert SECRET.encode() not in Redactor().apply(decoy)


@settings(max_examples=MANY, deadline=None)
@given(st.permutations(list(event())), st.sampled_from(["secrets", "pods", "tokenreviews"]), st.booleans())
def test_the_fast_path_decides_as_the_slow_one(order: list[str], resource: str, compact: bool) -> None:
    whole = event(objectRef=ref(resource))
    before = line({name: whole[name] for name in order}, compact=compact)
    redactor = Redactor()
    assert redactor.apply(before) == redactor._apply_slowly(before)


def test_hashes_tell_equal_bodies_apart_from_others_only_with_the_key() -> None:
    def notes(key: bytes, body: Any) -> str:
        after = json.loads(
            Redactor(mode="hash", key=key).apply(line(event(objectRef=ref("secrets"), requestObject=body, responseObject=None)))
        )
        return str(after["annotations"][ANNOTATION])

    first, second = b"1" * 32, b"2" * 32
    assert notes(first, {"data": "x"}) == notes(first, {"data": "x"})
    assert notes(first, {"data": "x"}) != notes(first, {"data": "y"})
    assert notes(first, {"data": "x"}) != notes(second, {"data": "x"})
    assert notes(first, {"data": "x"}).startswith("requestObject=blake2b:")


@pytest.mark.parametrize(
    ("uri", "kept"),
    [
        ("/api/v1/pods?limit=500&continue=abc", "/api/v1/pods?limit=500&continue=abc"),
        ("/apis?timeout=32s", "/apis?timeout=32s"),
        ("/proxy/?token=abc", "/proxy/?token=REDACTED"),
        ("/proxy/?a=1&access_token=abc&b=2", "/proxy/?a=1&access_token=REDACTED&b=2"),
        ("/proxy/?X-Auth-Token=abc", "/proxy/?X-Auth-Token=REDACTED"),
        ("/proxy/?%74oken=abc", "/proxy/?token=REDACTED"),
        ("/proxy/?api_key=abc;client-secret=d", "/proxy/?api_key=REDACTED;client-secret=REDACTED"),
        ("/proxy/?q=Bearer%20abc.def", "/proxy/?q=Bearer%20REDACTED"),
        ("/proxy/eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJqbyJ9.c2ln/x", "/proxy/REDACTED/x"),
        ("/proxy/?q%3DeyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJqbyJ9.c2ln", "/proxy/?q=REDACTED"),
        ("/apis/example.com/v1/tokenreviewers?timeout=1s", "/apis/example.com/v1/tokenreviewers?timeout=1s"),
        ("/api/v1/pods?fieldSelector=metadata.name%3Dtoken", "/api/v1/pods?fieldSelector=metadata.name%3Dtoken"),
    ],
)
@pytest.mark.parametrize("reference", [ref("services"), None])
def test_tokens_leave_the_uri_and_nothing_else_does(uri: str, kept: str, reference: dict[str, str] | None) -> None:
    # An API server writes & as an escape.
    before = line(event(requestURI=uri, objectRef=reference)).replace(b"&", b"\\u0026")
    after = Redactor().apply(before)
    assert json.loads(after)["requestURI"] == kept
    assert (after is before) == (uri == kept)
    if uri != kept:
        assert json.loads(after)["annotations"] == {"a/b": "c", ANNOTATION: "requestURI"}


_FORMS = [
    "eyJ",
    "a" * 8,
    ".",
    "Bearer ",
    "bASIC\t",
    "am86cHc=",
    "1",
    "ghp_",
    "glpat-",
    "xoxb-",
    "HVS.",
    "hvs.",
    "ya29.",
    "://",
    "jo",
    ":",
    "@",
]
_FORMS += ["-----BEGIN PRIVATE KEY-----", "-----begin private key-----", " ", "/", "\n", "x" * 20, "é", "K"]


@settings(max_examples=MANY, deadline=None)
@given(st.lists(st.sampled_from(_FORMS), max_size=8).map("".join))
def test_no_text_is_passed_over_that_holds_a_credential(text: str) -> None:
    if clean_text(text) != text:
        assert may_hold_by_form(text.encode())
    if clean_uri(text) != text:
        assert uri_needs_a_look(text.encode())


@pytest.mark.timeout(20)
def test_a_hostile_uri_costs_no_more_than_a_long_one() -> None:
    redactor = Redactor()
    for uri in (
        "/x?%" + "25" * 50_000 + "41",
        "/" + "token" * 50_000,
        "?" + "a=" * 50_000,
        "eyJ" * 50_000,
        "/?" + "Bearer " * 20_000,
    ):
        json.loads(redactor.apply(line(event(requestURI=uri))))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", ["\\\\", "\\u0041", "%25", "eyJ", 'Secret\\"', "bearer ", "://a:", "admission webhook "])
def test_hostile_texts_cost_no_more_than_long_ones(part: str) -> None:
    text = part * (1_000_000 // len(part))
    for resource in ("pods", "secrets"):
        status = b'"responseStatus":{"message":"%s"},"requestObject":' % text.encode()
        whole = line(event(objectRef=ref(resource))).replace(b'"requestObject":', status)
        Redactor().apply(whole)
        Redactor().apply(whole[:-5])


@pytest.mark.parametrize(
    ("raw", "withheld"),
    [
        (b'{"kind":"Secret","data":"\\ud800"', True),
        (b'{"requestURI":"/?ToKeN=1"', True),
        (b'"eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJqbyJ9.c2ln"', True),
        (b"42", False),
        (b'{"verb":"\\ud800"}', False),
    ],
)
def test_bytes_that_do_not_decode_are_kept_only_if_they_look_harmless(raw: bytes, withheld: bool) -> None:
    after = Redactor().apply(raw)
    assert (after != raw) == withheld
    if withheld:
        assert json.loads(after) == {ANNOTATION: f"undecodable record of {len(raw)} bytes withheld: it may hold a credential"}


def test_annotations_of_another_shape_withhold_the_event() -> None:
    after = Redactor().apply(line(event(objectRef=ref("secrets"), annotations=["odd"])))
    assert SECRET.encode() not in after


def test_configured_resources_take_the_place_of_the_table() -> None:
    redactor = Redactor(["tokens.example.com", "widgets/keys"])
    for reference, hidden in [
        (ref("tokens", "example.com"), True),
        (ref("tokens", "other.com"), False),
        (ref("widgets", subresource="keys"), True),
        (ref("widgets"), False),
        (ref("secrets"), False),
    ]:
        assert (SECRET.encode() not in redactor.apply(line(event(objectRef=reference)))) == hidden


def test_a_wrong_rule_and_a_missing_key_are_named() -> None:
    with pytest.raises(InputError, match="'se crets' names no resource"):
        Redactor(["se crets"])
    with pytest.raises(InputError, match="needs a key of 32 bytes"):
        Redactor(mode="hash")


def test_recorded_events_pass_unchanged() -> None:
    redactor = Redactor(DEFAULT_RESOURCES)
    lines = [
        item
        for path in sorted(POSTS.glob("*.zst"))
        for item in parse_event_list(zstandard.ZstdDecompressor().decompress(path.read_bytes())).lines
    ]
    assert len(lines) == 499
    assert all(redactor.apply(item) is item for item in lines)


def test_the_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "redaction.key"
    key = load_or_create_key(path)
    assert load_or_create_key(path) == key
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(b"short")
    with pytest.raises(LakeError, match="holds 5 bytes"):
        load_or_create_key(path)
