"""Who may read: tokens of a file, and OIDC tokens; no sender may read and no reader may send."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from api.access import oidc
from api.access.oidc import Oidc, OidcRules, TokenRefusedError
from api.access.readers import NotAReaderError, Readers, read_tokens
from api.settings import Settings
from ingest.errors import InputError, LakeError
from tests.markup import faults, read_page
from tests.querying import QueryClient

ISSUER, AUDIENCE = "https://issuer.example", "hindcast"
TOKEN = "0123456789abcdef-of-alice"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def jwk(key: Any, kid: str, **more: str) -> dict[str, Any]:
    kinds = {rsa.RSAPrivateKey: RSAAlgorithm, ec.EllipticCurvePrivateKey: ECAlgorithm, ed25519.Ed25519PrivateKey: OKPAlgorithm}
    algorithm = next(found for kind, found in kinds.items() if isinstance(key, kind))
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig", **more}


def key_file(folder: Path, *keys: dict[str, Any]) -> Path:
    path = folder / "jwks.json"
    path.write_text(json.dumps({"keys": list(keys) or [jwk(KEY, "one")]}))
    return path


def token(key: Any = KEY, kid: str | None = "one", algorithm: str = "RS256", **changes: Any) -> str:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": int(time.time()) + 600, "groups": ["sre"], **changes}
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, key, algorithm, headers={"kid": kid} if kid else None)


def unsigned(header: dict[str, Any]) -> str:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": int(time.time()) + 600}
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (header, claims))
    return ".".join(parts) + "."


@pytest.fixture
def issuer(tmp_path: Path) -> Oidc:
    return Oidc(OidcRules(ISSUER, AUDIENCE, str(key_file(tmp_path))))


def test_a_valid_token_names_its_user(issuer: Oidc) -> None:
    assert issuer.user_of(token()) == ("alice", True)
    assert issuer.user_of(token(kid=None)) == ("alice", True)
    assert issuer.user_of(token(aud=["other", AUDIENCE])) == ("alice", True)


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        (lambda: token(exp=int(time.time()) - 3600), "has expired"),
        (lambda: token(nbf=int(time.time()) + 3600), "not valid yet"),
        (lambda: token(aud="grafana"), "another audience"),
        (lambda: token(iss="https://evil.example"), "another issuer"),
        (lambda: token(exp=None), "lacks one of"),
        (lambda: token(aud=None), "lacks one of"),
        (lambda: token(iss=None), "lacks one of"),
        (lambda: token(sub=None), "no text in its claim 'sub'"),
        (lambda: token(OTHER), "signature is wrong"),
        (lambda: token(kid="two"), "does not publish"),
        (lambda: unsigned({"alg": "none"}), "algorithm is not taken"),
        (lambda: unsigned({"alg": "NoNe", "kid": "one"}), "algorithm is not taken"),
        (lambda: unsigned({"alg": None}), "algorithm is not taken|malformed"),
        (lambda: unsigned({"alg": ["RS256"]}), "algorithm is not taken|malformed"),
        (lambda: token("the issuer's public key, as an attacker would use it", algorithm="HS256"), "algorithm is not taken"),
        (lambda: token(ec.generate_private_key(ec.SECP256R1()), algorithm="ES256"), "does not publish"),
        (lambda: token()[:-4] + "AAAA", "signature is wrong"),
        (lambda: "a.b.c", "malformed"),
        (lambda: "..", "malformed"),
        (lambda: "x" * 20_000, "longer than"),
        (lambda: token(exp="tomorrow"), "malformed"),
    ],
)
def test_every_other_token_is_refused_with_the_reason(issuer: Oidc, shown: Any, why: str) -> None:
    with pytest.raises(TokenRefusedError, match=why):
        issuer.user_of(shown())


def test_a_symmetric_key_of_the_issuer_signs_nothing(tmp_path: Path) -> None:
    secret = base64.urlsafe_b64encode(b"s" * 32).decode().rstrip("=")
    keys = key_file(tmp_path, jwk(KEY, "one"), {"kty": "oct", "kid": "two", "k": secret, "alg": "HS256"})
    with pytest.raises(TokenRefusedError, match="algorithm is not taken"):
        Oidc(OidcRules(ISSUER, AUDIENCE, str(keys))).user_of(token("s" * 32, kid="two", algorithm="HS256"))


@pytest.mark.parametrize(
    ("key", "algorithm"), [(ec.generate_private_key(ec.SECP256R1()), "ES256"), (ed25519.Ed25519PrivateKey.generate(), "EdDSA")]
)
def test_elliptic_curves_are_taken(tmp_path: Path, key: Any, algorithm: str) -> None:
    issuer = Oidc(OidcRules(ISSUER, AUDIENCE, str(key_file(tmp_path, jwk(KEY, "one"), jwk(key, "two")))))
    assert issuer.user_of(token(key, "two", algorithm))[0] == "alice"


@pytest.mark.parametrize(
    ("rules", "let_in"),
    [
        ({"users": {"alice"}}, True),
        ({"users": {"bob"}}, False),
        ({"groups": {"sre", "other"}}, True),
        ({"groups": {"dev"}}, False),
        ({"users": {"bob"}, "groups": {"sre"}}, True),
        ({"groups": {"sre"}, "groups_claim": "roles"}, False),
        ({"users": {"a@b.example"}, "user_claim": "email"}, True),
    ],
)
def test_the_rules_say_who_is_let_in(tmp_path: Path, rules: dict[str, Any], let_in: bool) -> None:
    given = {name: frozenset(value) if isinstance(value, set) else value for name, value in rules.items()}
    issuer = Oidc(OidcRules(ISSUER, AUDIENCE, str(key_file(tmp_path)), **given))
    assert issuer.user_of(token(email="a@b.example"))[1] is let_in
    assert issuer.user_of(token(email="a@b.example", groups="sre"))[1] is let_in


@pytest.mark.parametrize("groups", [5, 1.5, True, None, {"sre": True}, {}, [["sre"]], [5, None], "sr"])
def test_groups_that_are_no_list_of_names_let_nobody_in(tmp_path: Path, groups: object) -> None:
    issuer = Oidc(OidcRules(ISSUER, AUDIENCE, str(key_file(tmp_path)), groups=frozenset({"sre", "s"})))
    assert issuer.user_of(token(groups=groups)) == ("alice", False)


def test_keys_of_a_file_are_rotated(tmp_path: Path, issuer: Oidc) -> None:
    key_file(tmp_path, jwk(OTHER, "two"), jwk(OTHER, "three", use="enc"))
    assert issuer.user_of(token(OTHER, "two"))[0] == "alice"
    with pytest.raises(TokenRefusedError, match="does not publish"):
        issuer.user_of(token())
    (tmp_path / "jwks.json").write_text("half written {")
    assert issuer.user_of(token(OTHER, "two"))[0] == "alice"


@contextmanager
def served(pages: dict[str, Any]) -> Iterator[str]:
    """Pages over plain HTTP on loopback; `asked` counts the requests for each."""
    pages["asked"] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pages["asked"].append(self.path)
            body = json.dumps(pages.get(self.path)).encode()
            self.send_response(200 if self.path in pages else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_keys_of_a_url_are_kept_and_asked_for_again_when_they_rotate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "_ASK_AGAIN_SECONDS", 0.0)
    pages: dict[str, Any] = {"/keys": {"keys": [jwk(KEY, "one")]}}
    with served(pages) as url:
        issuer = Oidc(OidcRules(ISSUER, AUDIENCE, f"{url}/keys"))
        for _ in range(3):
            issuer.user_of(token())
        assert pages["asked"] == ["/keys"]
        pages["/keys"] = {"keys": [jwk(OTHER, "two")]}
        assert issuer.user_of(token(OTHER, "two"))[0] == "alice"
        del pages["/keys"]
        with pytest.raises(TokenRefusedError, match="does not publish"):
            issuer.user_of(token())
        assert issuer.user_of(token(OTHER, "two"))[0] == "alice"


def test_invented_key_ids_do_not_make_us_ask_the_issuer_each_time() -> None:
    pages: dict[str, Any] = {"/keys": {"keys": [jwk(KEY, "one")]}}
    with served(pages) as url:
        issuer = Oidc(OidcRules(ISSUER, AUDIENCE, f"{url}/keys"))
        for number in range(5):
            with pytest.raises(TokenRefusedError):
                issuer.user_of(token(OTHER, f"invented-{number}"))
        assert pages["asked"] == ["/keys"]


def test_the_discovery_document_names_the_keys() -> None:
    pages: dict[str, Any] = {"/keys": {"keys": [jwk(KEY, "one")]}}
    with served(pages) as url:
        pages["/.well-known/openid-configuration"] = {"issuer": url, "jwks_uri": f"{url}/keys"}
        assert Oidc(OidcRules(url, AUDIENCE)).user_of(token(iss=url))[0] == "alice"
        pages["/.well-known/openid-configuration"] = {"issuer": "https://evil.example", "jwks_uri": f"{url}/keys"}
        with pytest.raises(LakeError, match="issuer's keys could not be fetched"):
            Oidc(OidcRules(url, AUDIENCE)).user_of(token(iss=url))


@pytest.mark.parametrize(
    "given", [("", "a", ""), ("https://i", "", ""), ("http://i.example", "a", ""), ("https://i", "a", "http://i.example/keys")]
)
def test_rules_that_prove_nothing_are_refused(given: tuple[str, str, str]) -> None:
    with pytest.raises(InputError):
        OidcRules(*given)


@pytest.mark.parametrize("text", ["{}", "nothing", '{"keys": []}', '{"keys": [{"kty": "oct", "k": "eA"}]}'])
def test_a_file_without_keys_is_refused_at_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "jwks.json").write_text(text)
    with pytest.raises(InputError, match=r"jwks\.json"):
        Oidc(OidcRules(ISSUER, AUDIENCE, str(tmp_path / "jwks.json")))


def test_tokens_of_a_file_name_their_reader(tmp_path: Path) -> None:
    path = tmp_path / "readers"
    path.write_text(f"# who\nalice token:{TOKEN}\n\ngrafana sha256:{hashlib.sha256(b'another-long-token').hexdigest()}\n")
    readers = Readers(path)
    assert readers.reader_of(f"Bearer {TOKEN}").name == "alice"
    assert readers.reader_of("bearer another-long-token").name == "grafana"
    basic = base64.b64encode(f"anything:{TOKEN}".encode()).decode()
    assert readers.reader_of(f"Basic {basic}").name == "alice"
    for shown in (None, "", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Token {TOKEN}", "Basic !", "Basic", TOKEN):
        with pytest.raises(NotAReaderError) as caught:
            readers.reader_of(shown)
        assert caught.value.status == 401


def test_tokens_are_rotated_and_revoked(tmp_path: Path) -> None:
    path = tmp_path / "readers"
    path.write_text(f"alice token:{TOKEN}\n")
    readers = Readers(path)
    path.write_text("alice token:0123456789abcdef-new\n")
    assert readers.reader_of("Bearer 0123456789abcdef-new").name == "alice"
    with pytest.raises(NotAReaderError):
        readers.reader_of(f"Bearer {TOKEN}")
    path.write_text("alice token:short\n")
    assert readers.reader_of("Bearer 0123456789abcdef-new").name == "alice"
    path.write_text("# nobody any more\n")
    with pytest.raises(NotAReaderError):
        readers.reader_of("Bearer 0123456789abcdef-new")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no token"),
        ("# only a comment\n", "holds no token"),
        ("alice\n", ":1: this is not a reader"),
        ("\nalice name:alice\n", ":2: this is not a reader"),
        ("al/ice token:0123456789abcdef\n", ":1: this is not a reader"),
        ("alice token:short\n", ":1: the token is shorter"),
        ("alice sha256:abc\n", ":1: this is not a reader"),
    ],
)
def test_a_file_of_tokens_is_checked_at_the_start(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "readers"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        Readers(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_tokens(tmp_path / "absent")


@pytest.fixture
def guarded(demo_lake: Path, tmp_path: Path) -> Iterator[QueryClient]:
    (tmp_path / "readers").write_text(f"alice token:{TOKEN}\n")
    keys = str(key_file(tmp_path))
    given = {"oidc_issuer": ISSUER, "oidc_audience": AUDIENCE, "oidc_jwks": keys, "oidc_groups": ("sre",)}
    with QueryClient(Settings(lake=demo_lake, query_tokens=tmp_path / "readers", **given)) as client:
        yield client


PATHS = (
    "/clusters",
    "/requests",
    "/openapi.json",
    "/replays",
    "/nothing",
    "http://127.0.0.1/",
    "http://127.0.0.1/static/other",
)


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_told_to_strangers(guarded: QueryClient, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {token(OTHER)}"}):
        response = guarded.send("GET", path, headers=headers)
        assert response.status_code == 401
        assert response.json()["error"]["code"] == "no_reader"
        assert response.headers["www-authenticate"].startswith("Bearer" if "/api/" in str(response.url) else "Basic")
    assert guarded.send("POST", "/replays", content=b"x").status_code == 401
    assert guarded.send("DELETE", f"/replays/{'0' * 32}").status_code == 401


def test_a_browser_without_a_token_gets_a_styled_page_that_says_how_to_show_one(guarded: QueryClient) -> None:
    response = guarded.send("GET", "http://127.0.0.1/violations", headers={"Accept": "text/html"})
    assert (response.status_code, response.headers["www-authenticate"].partition(" ")[0]) == (401, "Basic")
    page = read_page(response.text)
    assert faults(page) == []
    assert "You need a token" in next(page.all("main")).words()
    assert "the token as the password" in next(page.all("main")).words()
    for element in page.all("link", "script"):
        path = element.attributes.get("href") or element.attributes["src"]
        assert guarded.send("GET", f"http://127.0.0.1{path}").status_code == 200, path


def test_readers_are_let_in_by_either_proof_and_others_are_forbidden(guarded: QueryClient) -> None:
    for shown in (TOKEN, token()):
        assert guarded.send("GET", "/clusters", headers={"Authorization": f"Bearer {shown}"}).status_code == 200
    response = guarded.send("GET", "/clusters", headers={"Authorization": f"Bearer {token(groups=['dev'])}"})
    assert (response.status_code, response.json()["error"]["code"]) == (403, "not_allowed")
    assert guarded.send("GET", "http://127.0.0.1/healthz").status_code == 200


def test_a_page_elsewhere_cannot_use_the_browser_of_somebody_here(demo_lake: Path) -> None:
    with QueryClient(Settings(lake=demo_lake)) as open_to_all:
        refused = open_to_all.send("GET", "/clusters", headers={"Host": "evil.example:7444"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "wrong_host")
        for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
            response = open_to_all.send(
                "POST", "/replays", headers={"Content-Type": "application/yaml", **headers}, content=b"a: 1"
            )
            assert (response.status_code, response.json()["error"]["code"]) == (403, "wrong_origin")
        assert open_to_all.send("POST", "/replays", headers={"Content-Type": "text/plain"}, content=b"a: 1").status_code == 415
        assert open_to_all.send("GET", "/clusters", headers={"Host": "localhost:7444"}).status_code == 200
