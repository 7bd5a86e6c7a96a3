"""Finds credentials in texts, URIs and the arguments of commands; every search takes linear time on any text.

A value is a credential by its own form (a JSON web token, a private key, the password of a URL), or by the name before it
(`?access_token=`, `PGPASSWORD=`, `--password X`, `Authorization: Basic X`). Names decide in URIs and commands alone: elsewhere,
`token=` may be the text of a policy.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Sequence
from urllib.parse import quote, unquote

import re2

REDACTED = "REDACTED"

# Without one of these, in any letter case, no text holds a credential by its form.
_TEXT_SIGNS = rb"eyj|private key|(?:bearer|basic)[ \\\t\n]|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|hvs\.|ya29\.|://[^/@]*@"
_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)")
# The pattern matches at the beginning of a word only: a search at every `eyJ` inside a word would take quadratic time on a hostile
# text.
_JWT = re.compile(r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{8,}+(?:\.[\w-]*+)?")
_USERINFO = re.compile(r"(?<=://)([^\s/@:?#\"'\\]*+)(:[^\s/@?#\"'\\]*+)?@")
# The tokens of github.com, gitlab.com, Slack, HashiCorp Vault and Google begin with these prefixes.
_ISSUED = re.compile(
    r"(?<![A-Za-z0-9_-])(?:gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_\w{20,}+|glpat-[\w-]{16,}+|xox[abprs]-[\w-]{10,}+|hvs\.[\w-]{20,}+"
    r"|ya29\.[\w-]{20,}+)"
)
# In a URI, the text after the word is always a token.
_BEARER = re.compile(r"(?i)(?<!\w)(bearer\s++)[^&;/?#\s\"']++")
_SCHEME = re.compile(r"(?i)(?<!\w)(bearer|basic)(\s++)([\w.~+/=-]++)")

# The value of a parameter, variable or option is a credential if its name has one of these words anywhere. The shorter words count
# only as whole words.
_SECRET_NAME = re.compile(
    r"(?i)token|bearer|authorization|passw|passphrase|pwd|secret|credential|signature|jwt"
    r"|api[_.-]?key|access[_.-]?key|private[_.-]?key|encryption[_.-]?key|session[_.-]?id"
    r"|(?:^|[_.-])(?:auth|sig|pass|sas|otp|cookie)(?=$|[_.-])|^key$"
)
_PLAIN_NAME = re.compile(r"(?i)[_.-](?:file|path|dir)$|key[_.-]id$|secret[_.-]?name(?:space)?$")
_SWITCH = re.compile(r"(?i)--(?:no|show|with|use|skip|print|require|enable|disable)-|.*-stdin\Z")
_LONG_OPTION = re.compile(r"--?[A-Za-z][\w.-]*+")
_VALUE_TEXT = r"""(?:(?:basic|bearer|digest|token|negotiate|apikey)\s++)?+(?:"(?:[^"\\]|\\.)*+"?+|'[^']*+'?+|[^\s&;|,"')]++)"""
_VALUE = re.compile(_VALUE_TEXT, re.IGNORECASE)
# NAME=VALUE anywhere; NAME: VALUE as in a header or in JSON, where a port or a path would have no space or quote.
_ASSIGNMENT = re.compile(r"(?<![\w.-])([\w.-]++)(?:=|[\"']?+:[ \t]++|[\"']\s*+:\s*+)")
# Options with short names that some programs use for credentials.
_SHORT_OPTIONS = {
    **dict.fromkeys(("mysql", "mysqldump", "mysqladmin", "mariadb", "mariadb-dump", "mariadb-admin"), ("-p",)),
    **dict.fromkeys(("sshpass", "mongo", "mongosh", "mongodump", "mongorestore", "docker", "podman", "skopeo"), ("-p",)),
    **dict.fromkeys(("curl", "wget"), ("-u", "--user", "--proxy-user")),
    **dict.fromkeys(("redis-cli", "valkey-cli"), ("-a",)),
    **dict.fromkeys(("ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldappasswd", "ldapwhoami"), ("-w", "-s", "-a")),
}
_ATTACHED_ONLY = frozenset(("mysql", "mysqldump", "mysqladmin", "mariadb", "mariadb-dump", "mariadb-admin"))
_TOKEN = re.compile(r"\s*+(\S++)")
_ENDS_COMMAND = re.compile(r"[|;&]")

# A URI without any of these signs, in lower case, holds no credential. The signs are a word from above, or an escape of a letter or
# of a percent sign.
_URI_SIGNS = re.compile(
    rb"token|bearer|auth|pass|pwd|secret|credential|key|sig|jwt|session|sas|otp|cookie|eyj|command=|basic|[@_]|://|%[4-7]|%25"
    rb"|/webhooks/|glpat-|xox|hvs\.|ya29\.|private|\\(?!u0026)"
)
# A URI of only these bytes has no parameter, no escape and no user.
_URI_PLAIN = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-.~:,"
_BUILD_SECRET = re.compile(r"(?<=/webhooks/)[^/]++(?=/)")
_BETWEEN_PARAMETERS = re.compile(r"([?&;#])")
# Their values are names and labels, or values that the API server itself made.
_PLAIN_PARAMETERS = frozenset(("labelSelector", "fieldSelector", "continue"))
# A proxy encodes its input once more; a text that is encoded more often was made to hide something.
_ENCODINGS_MAX = 5
_KEPT_CHARACTERS = "/:=@,~+!$'()*[]{}\"<>|^`\\"


def clean_text(text: str) -> str:
    """A text without values that are credentials by their form."""
    text = _PEM.sub(REDACTED, text)
    text = _JWT.sub(REDACTED, text)
    text = _ISSUED.sub(REDACTED, text)
    text = _USERINFO.sub(_without_user, text)
    return _SCHEME.sub(_without_scheme_value, text)


def byte_options() -> re2.Options:
    """RE2 over bytes; it only says whether there is a match."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    return options


def _set_of(pattern: bytes) -> re2.Set:
    """One pattern over bytes, ignoring case. RE2 searches in linear time; calling its `Set` costs least."""
    options = byte_options()
    options.case_sensitive = False
    found = re2.Set.SearchSet(options)
    found.Add(pattern)
    found.Compile()
    return found


_text_signs = _set_of(_TEXT_SIGNS)


def may_hold_by_form(data: bytes) -> bool:
    """Whether `clean_text` may change a text of these bytes; they may also be JSON with such texts."""
    return bool(_text_signs.Match(data))


def is_secret_name(name: str) -> bool:
    """Whether the value of this name is a credential."""
    return _SECRET_NAME.search(name) is not None and _PLAIN_NAME.search(name) is None


def uri_needs_a_look(uri: bytes) -> bool:
    """Whether a URI, as JSON writes it, may hold a credential; cheap. It is true wherever `clean_uri` changes something."""
    if uri.translate(None, _URI_PLAIN):
        return _URI_SIGNS.search(uri.lower()) is not None
    # Inlined, because every event passes here: without one of these no text holds what `may_hold_by_form` looks for.
    return b"/webhooks/" in uri or b"J" in uri or b"glpat-" in uri or b"xox" in uri or b"hvs." in uri or b"ya29." in uri


def clean_uri(uri: str) -> str:
    """A request's URI without credentials in its path, its parameters and the arguments of a command in it."""
    path, mark, query = uri.partition("?")
    # OpenShift's webhooks of a build have their secret in the path (openshift/api build/v1, WebHookTrigger).
    cleaned = _BUILD_SECRET.sub(REDACTED, _clean_part(path, "", "/"))
    if not mark:
        return cleaned
    pieces = _BETWEEN_PARAMETERS.split(query)  # parameters, and at odd indexes the separators between two
    arguments: list[int] = []
    for at in range(0, len(pieces), 2):
        name, equals, value = pieces[at].partition("=")
        if not equals:
            pieces[at] = _clean_part(name, "", "")
            continue
        plain = _decoded(name)
        if value and (plain is None or is_secret_name(plain)):
            pieces[at] = f"{name if plain == name else quote(plain or REDACTED, safe='')}={REDACTED}"
        elif plain == "command":
            arguments.append(at)
        elif plain not in _PLAIN_PARAMETERS:
            pieces[at] = name + equals + _clean_part(value, "+", "")
    _clean_arguments(pieces, arguments)
    return f"{cleaned}?{''.join(pieces)}"


def clean_command(arguments: Sequence[str]) -> list[str]:
    """The arguments of a command, each without the credentials in it. An argument such as `--password` makes the next one a
    credential."""
    found: list[str] = []
    walk = _CommandWalk()
    for argument in arguments:
        found.append(walk.clean(argument))
    return found


class _CommandWalk:
    """Goes through the words of a command, also of one in a shell's `-c`, and knows when the next word is a credential."""

    def __init__(self) -> None:
        self._program = ""
        self._is_next = False
        self._quote = ""  # the quote that ends a credential of several words

    def clean(self, argument: str) -> str:
        """One argument; an option that announces a credential is remembered for the next one."""
        if self._is_next and argument and not argument.startswith("--"):
            self._is_next = False
            return REDACTED
        self._quote = ""
        kept: list[str] = []
        end = 0
        for match in _TOKEN.finditer(argument):
            kept += (argument[end : match.start(1)], self._word(match[1]))
            end = match.end()
        return clean_text(_BEARER.sub(rf"\g<1>{REDACTED}", _without_assigned("".join((*kept, argument[end:])))))

    def _word(self, word: str) -> str:
        if self._quote:
            self._quote = "" if word.endswith(self._quote) else self._quote
            return REDACTED
        if self._is_next:
            self._is_next = False
            if not word.startswith("--"):
                is_open = word[0] in "\"'" and (len(word) == 1 or not word.endswith(word[0]))
                self._quote = word[0] if is_open else ""
                return REDACTED
        program = word.rsplit("/", 1)[-1].strip("\"'`$(")
        if program in _SHORT_OPTIONS:
            self._program = program
            return word
        if _ENDS_COMMAND.search(word):
            self._program = ""
        option = word.strip("\"'")
        if _LONG_OPTION.fullmatch(option) and len(option) > 3 and is_secret_name(option) and not _SWITCH.match(option):
            self._is_next = True
            return word
        return self._short_option(word, option)

    def _short_option(self, word: str, option: str) -> str:
        for short in _SHORT_OPTIONS.get(self._program, ()):
            if option == short:
                self._is_next = self._program not in _ATTACHED_ONLY
            elif option.startswith(f"{short}=" if short.startswith("--") else short):
                return f"{short}={REDACTED}" if short.startswith("--") else f"{short}{REDACTED}"
        return word


def _clean_arguments(pieces: list[str], places: Sequence[int]) -> None:
    decoded = [_decoded(pieces[at].partition("=")[2], "+") for at in places]
    for at, before, after in zip(places, decoded, clean_command([text or "" for text in decoded]), strict=True):
        if before is None or before != after:
            pieces[at] = f"{pieces[at].partition('=')[0]}={REDACTED if before is None else quote(after, safe=_KEPT_CHARACTERS)}"


def _clean_part(text: str, space: str, safe: str) -> str:
    """A part of a URI without credentials; the same text where it holds none worth removing."""
    decoded = _decoded(text, space)
    if decoded is None:
        return safe + REDACTED
    cleaned = clean_text(_BEARER.sub(rf"\g<1>{REDACTED}", _without_assigned(decoded)))
    return text if cleaned == decoded else quote(cleaned, safe=_KEPT_CHARACTERS + ("?&;#" if safe else ""))


def _decoded(text: str, space: str = "") -> str | None:
    """The text after all percent-decoding; None where it is encoded too many times."""
    if space:
        text = text.replace(space, " ")
    for _ in range(_ENCODINGS_MAX):
        if "%" not in text or (decoded := unquote(text)) == text:
            return text
        text = decoded
    return None if "%" in text and unquote(text) != text else text


def _without_user(match: re.Match[str]) -> str:
    user, password = match[1], match[2]
    # A long user name without a password is a token: some hosts accept a token alone.
    return match[0] if not password and len(user) < 20 else f"{REDACTED}@"


def _without_scheme_value(match: re.Match[str]) -> str:
    """`bearer` and `basic` are English words as well; only the form of the next text tells whether it is a credential."""
    value = match[3]
    if match[1].lower() == "bearer":
        is_credential = len(value) >= 16 and any(letter.isdigit() for letter in value)
    else:
        is_credential = _is_basic(value)
    return f"{match[1]}{match[2]}{REDACTED}" if is_credential else match[0]


def _is_basic(value: str) -> bool:
    """USER:PASSWORD in Base64, RFC 7617."""
    try:
        return b":" in b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (Base64Error, ValueError):
        return False


def _without_assigned(text: str) -> str:
    """A text without the values assigned to names of credentials."""
    kept: list[str] = []
    end = at = 0
    while match := _ASSIGNMENT.search(text, at):
        at = match.end()
        # The value of another name may itself hold such an assignment, so the search does not skip it.
        if is_secret_name(match[1]) and (value := _VALUE.match(text, at)):
            kept += (text[end:at], REDACTED)
            end = at = value.end()
    return "".join((*kept, text[end:])) if kept else text
