"""Credentials in the arguments of commands, and in the scripts that shells run; every search takes linear time on any text.

An argument is a credential by the option before it (`--password X`), by its place (`vault login X`), because a program reads it as
its input (`echo X | docker login --password-stdin`), or as a part of SQL (`IDENTIFIED BY 'X'`). The tables name programs that are
common in containers. A program that they lack may show its credentials.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from .forms import REDACTED
from .names import clean_named, is_secret_name
from .objects import clean_manifest

_SWITCH = re.compile(r"(?i)--(?:no|show|with|use|skip|print|require|enable|disable)-|.*-stdin\Z")
_LONG_OPTION = re.compile(r"--?[A-Za-z][\w.-]*+")
_MYSQL = ("mysql", "mysqldump", "mysqladmin", "mariadb", "mariadb-dump", "mariadb-admin")
_PACKERS = ("7z", "7za", "7zr")
# Options with short names that some programs use for credentials.
_SHORT_OPTIONS = {
    **dict.fromkeys(
        (*_MYSQL, *_PACKERS, "mysqlsh", "sshpass", "cypher-shell", "cqlsh", "az", "helm", "useradd", "usermod"), ("-p",)
    ),
    **dict.fromkeys(
        ("mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport", "mongostat", "mongotop"), ("-p",)
    ),
    **dict.fromkeys(("docker", "podman", "skopeo", "buildah", "nerdctl", "crane", "oras", "regctl"), ("-p",)),
    **dict.fromkeys(("curl", "wget"), ("-u", "--user", "--proxy-user", "-U", "-b", "-E")),
    **dict.fromkeys(("redis-cli", "valkey-cli"), ("-a",)),
    **dict.fromkeys(("ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldappasswd", "ldapwhoami"), ("-w", "-s", "-a")),
    **dict.fromkeys(("zip", "unzip", "sqlcmd", "bcp", "isql", "tsql", "ipmitool", "mosquitto_pub", "mosquitto_sub"), ("-P",)),
    **dict.fromkeys(("smbclient", "rpcclient"), ("-U",)),
    **dict.fromkeys(("twine", "couchbase-cli", "cbq", "doveadm", "airflow", "elasticsearch-users"), ("-p",)),
    **dict.fromkeys(("snmpget", "snmpset", "snmpwalk", "snmpbulkwalk", "snmptrap"), ("-A", "-X", "-c")),
    **dict.fromkeys(("influx", "k3s", "doctl"), ("-t",)),
    "elasticsearch-reset-password": ("-p",),
    "gitlab-runner": ("-r",),
    "caddy": ("--plaintext",),
    "etcdctl": ("--user",),
    "ctr": ("-u", "--user"),
    "openssl": ("-k", "-K", "-hmac", "-macopt"),
    "vault": ("-id",),
    **dict.fromkeys(("kubectl", "oc"), ("-p", "--patch")),
    "ssh-keygen": ("-N", "-P"),
    "lftp": ("-u",),
    **dict.fromkeys(("http", "https"), ("-a",)),
}
_ATTACHED_ONLY = frozenset((*_MYSQL, *_PACKERS))
# Words of a program that credentials follow, and how many words stand between.
_PLACES: dict[str, tuple[tuple[tuple[str, ...], int], ...]] = {
    "vault": ((("login",), 0), (("unwrap",), 0), (("operator", "unseal"), 0), (("token", "lookup"), 0), (("token", "renew"), 0),
              (("token", "revoke"), 0), (("operator", "rekey"), 0), (("auth",), 0)),
    "bao": ((("login",), 0), (("unwrap",), 0), (("operator", "unseal"), 0)),
    "bw": ((("login",), 1), (("unlock",), 0)),
    "rabbitmqctl": ((("add_user",), 1), (("change_password",), 1), (("authenticate_user",), 1)),
    "neo4j-admin": ((("set-initial-password",), 0),),
    **dict.fromkeys(("redis-cli", "valkey-cli"), ((("auth",), 0), (("acl", "setuser"), 1))),
    "mc": ((("alias", "set"), 2), (("config", "host", "add"), 2), (("admin", "user", "add"), 1)),
    "etcdctl": ((("user", "add"), 0), (("user", "passwd"), 0)),
    "snyk": ((("auth",), 0),),
    "openssl": ((("passwd",), 0),),
    "rclone": ((("obscure",), 0),),
    "net": ((("user",), 1),),
    "smbclient": (((), 1),),
    "doveadm": ((("auth", "test"), 1),),
    "op": ((("signin",), 2),),
    "wpa_passphrase": (((), 1),),
    "consul": ((("kv", "put"), 1),),
    "mkpasswd": (((), 0),),
    "docker-credential": ((("store",), 0),),
}  # fmt: skip
# USER/PASSWORD@PLACE is one word for them.
_ORACLE = frozenset(("sqlplus", "rman", "expdp", "impdp", "sqlldr"))
_ORACLE_WORD = re.compile(r"([^/@\s]*+/)[^@\s]++")
# Words of a program after which each NAME=VALUE has a credential.
_PAIRS: dict[str, tuple[tuple[str, ...], ...]] = {
    **dict.fromkeys(("vault", "bao"), (("kv", "put"), ("kv", "patch"), ("write",))),
    **dict.fromkeys(("kubectl", "oc"), (("set", "data"),)),
    "heroku": (("config:set",),),
    **dict.fromkeys(("fly", "flyctl"), (("secrets", "set"),)),
}
_PROGRAMS = frozenset((*_SHORT_OPTIONS, *_PLACES, *_ORACLE, *_PAIRS, "htpasswd"))
# A word before a credential, whatever the program: `mysqladmin password X`, `ngrok authtoken X`, `heroku auth:token X`.
_ANNOUNCES = re.compile(
    r"(?i)(?:[\w.:-]*[.:-])?(?:password|passphrase|psk|authtoken|preshared-key|private-key|secret_?access_?key|(?<=:)token)"
)
# The words before the name of a setting, whose value follows.
_SETTERS = frozenset(("set", "setenv", "config", "put", "hset", "--add", "--replace-all", "--global", "--local"))
# A place is among the first words of a program; more are not remembered, so that the search stays linear.
_WORDS_MAX = 64
_TOKEN = re.compile(r"\s*+(\S++)")
_PAIR = re.compile(r"[\"']?[\w./-]++=")
# A header without a space: `-HAuthorization:X`, `x-vault-token:X`. A port, a path and a tag of an image look alike.
_HEADER = re.compile(r"(?<![\w./-])([\w-]++):(?![\s/]|\d++\b)((?:basic|bearer|token|apikey)\s++)?[^\s\"']++", re.IGNORECASE)
_ENDS_COMMAND = re.compile(r"[|;&]")
_PASS = re.compile(r"(?<![\w-])(pass:)[^\s\"']++")
_LITERAL = re.compile(r"(--from-literal[= ][\"']?[\w.-]*+=)(?:\"[^\"]*+\"?|'[^']*+'?|[^\s\"']++)")

# Programs and options that read a credential from their input.
_READS_INPUT = re.compile(
    r"--[\w-]{0,60}stdin\b|\b(?:chpasswd|smbpasswd|passwd|kinit|cryptsetup|ssh-add|redis-cli|valkey-cli)\b|--with-token\b|/dev/stdin"
    r"|\bsudo\b[^|;&\n]{0,200}?\s-S\b|\bhtpasswd\b[^|;&\n]{0,200}?\s-\w*+i|\b(?:vault|bao|docker|podman|op)\b[^|;&\n]{0,300}?[\s=]-(?=[\s;&|)\"']|\Z)"
    r"|\b(?:openssl|gpg)\b[^|;&\n]{0,300}?(?:stdin\b|--passphrase-fd)|\belasticsearch-keystore\s++add\b"
)
_PIPE = re.compile(r"\|")
_LINE_END = re.compile(r"\n")
_SAYS = re.compile(r"(?<![\w./-])(?:echo|printf|print|yes)(?:\s++-[neE]++)*+(?=\s)")
_HERE_STRING = re.compile(r"(<<<\s*+)(?:'[^']*+'?|\"(?:[^\"\\]|\\.)*+\"?|[^\s;|&)]++)")
_HERE_DOCUMENT = re.compile(r"<<-?+\s*+(?P<quote>[\"'\\]?)(?P<end>\w++)[\"']?([^\n]*+)\n")
# SQL, and the commands of databases. A quote inside the quotes of a shell is closed and opened again, or escaped.
_QUOTED = (
    r"(?:\$\w*+\$[\s\S]*?(?:\$\w*+\$|\Z)|'\"'\"'[^'\"]*+(?:'\"'\"')?|'\\''[^']*+(?:'\\'')?|\\\"[^\"\\]*+(?:\\\")?|\\'[^'\\]*+(?:\\')?"
    r"|'(?:[^'\\]|\\.)*+'?|\"(?:[^\"\\]|\\.)*+\"?)"
)
_SQL = re.compile(
    r"(?i)(\bidentified\s++(?:with\s++\S++\s++)?+(?:by|as)\s++(?:password\s++|values\s++)?+|\b(?:requirepass|masterauth)\s++|\bConvertTo-SecureString\s++(?:-String\s++)?+)"
    rf"(?:{_QUOTED}|[^\s;,)\"']++)"
    rf"|(\bset\s++password\s++(?:for\s++\S++\s*+)?+=\s*+|\b(?:password|passphrase|pwd|secret)(?:\s*+(?:=>?|\(|,)\s*+|\s++)(?:[en](?=['\\]))?){_QUOTED}"
)
_CALL = re.compile(r"(?i)(\b(?:auth|changeUserPassword|setPassword|set_password|set_encrypted_password)\()[^)]*+")


def clean_command(arguments: Sequence[str]) -> list[str]:
    """The arguments of a command, each without the credentials in it. An argument such as `--password` makes the next one a
    credential."""
    walk = _CommandWalk()
    return [walk.clean(argument) for argument in arguments]


def clean_script(text: str) -> str:
    """A script or a statement without the credentials that its own form shows: input of programs, SQL, manifests of Secrets."""
    if "<<" in text:
        text = _HERE_STRING.sub(rf"\g<1>{REDACTED}", _without_documents(text))
    if "|" in text:
        text = _without_piped(text)
    text = _SQL.sub(lambda found: f"{found[1] or found[2]}{REDACTED}", text)
    text = _LITERAL.sub(rf"\g<1>{REDACTED}", _PASS.sub(rf"\g<1>{REDACTED}", text))
    return clean_manifest(_CALL.sub(rf"\g<1>{REDACTED}", _HEADER.sub(_without_header, text)))


def _without_header(header: re.Match[str]) -> str:
    name = header[1]
    is_header = "-" in name.lstrip("-") or name.lower().endswith(("authorization", "cookie"))
    return f"{name}:{REDACTED}" if is_header and is_secret_name(name) else header[0]


def _without_piped(text: str) -> str:
    """The text without what is said to a program that reads a credential: from the first `echo` on whose line its pipe is."""
    kept: list[str] = []
    end = 0
    says = [found.end() for found in _SAYS.finditer(text)]
    pipes = [found.start() for found in _PIPE.finditer(text)]
    lines = [0, *(found.end() for found in _LINE_END.finditer(text))]
    for reader in _READS_INPUT.finditer(text):
        pipe = pipes[at - 1] if (at := bisect_left(pipes, reader.start())) else -1
        line = lines[bisect_left(lines, pipe + 1) - 1] if pipe >= 0 else 0
        first = bisect_left(says, max(end, line))
        start = says[first] if first < bisect_left(says, pipe) else -1
        if start >= end:
            kept += (text[end:start], f" {REDACTED} ")
            end = pipe
    return "".join((*kept, text[end:]))


def _without_documents(text: str) -> str:
    """The text without the here-documents that such a program reads."""
    kept: list[str] = []
    end = 0
    while found := _HERE_DOCUMENT.search(text, end):
        line = text[text.rfind("\n", 0, found.start()) + 1 : found.end()]
        last = re.compile(rf"^[ \t]*+{re.escape(found['end'])}[ \t]*+$", re.MULTILINE).search(text, found.end())
        stop = last.start() if last else len(text)
        kept += (text[end : found.end()], f"{REDACTED}\n" if _READS_INPUT.search(line) else text[found.end() : stop])
        end = stop
    return "".join((*kept, text[end:]))


class _CommandWalk:
    """Goes through the words of a command, also of one in a shell's `-c`, and knows when the next word is a credential."""

    def __init__(self) -> None:
        self._program = ""
        self._words: list[str] = []  # of the program, without options
        self._flags = ""  # the letters of its short options
        self._is_next = False
        self._is_literal = False
        self._quote = ""  # the quote that ends a credential of several words

    def clean(self, argument: str) -> str:
        """One argument; an option that announces a credential is remembered for the next one."""
        if argument and ((self._is_next and not argument.startswith("--")) or self._is_placed(argument)):
            self._is_next = False
            return REDACTED
        if (whole := self._assigned(argument)) is not None:
            return whole
        if self._takes_pairs() and (pair := _PAIR.match(argument)):
            return f"{pair[0]}{REDACTED}"
        argument = clean_script(argument)
        self._quote = ""
        kept: list[str] = []
        end = 0
        for match in _TOKEN.finditer(argument):
            kept += (argument[end : match.start(1)], self._word(match[1]))
            end = match.end()
        return clean_named("".join((*kept, argument[end:])))

    def _assigned(self, argument: str) -> str | None:
        """An argument that is NAME=VALUE as a whole, for the options that take such a one."""
        was_literal, self._is_literal = self._is_literal, argument == "--from-literal"
        if was_literal or argument.startswith("--from-literal="):
            option, value = ("", argument) if was_literal else ("--from-literal=", argument.removeprefix("--from-literal="))
            return f"{option}{value.partition('=')[0]}={REDACTED}"
        return f"pass:{REDACTED}" if argument.startswith("pass:") else None

    def _takes_pairs(self) -> bool:
        """Whether a NAME=VALUE of this program is a credential."""
        words = [word.lower() for word in self._words]
        return any(tuple(words[at : at + len(pair)]) == pair for pair in _PAIRS.get(self._program, ()) for at in range(len(words)))

    def _is_placed(self, word: str) -> bool:
        """Whether a word of the program is a credential by its place."""
        if word.startswith("-") and len(word) > 1:
            return False
        if self._program == "htpasswd":
            return "b" in self._flags and len(self._words) >= (1 if "n" in self._flags else 2)
        for words, between in _PLACES.get(self._program, ()):
            for at in range(len(self._words) - len(words) - between + 1):
                if tuple(each.lower() for each in self._words[at : at + len(words)]) == words:
                    return True
        return False

    def _word(self, word: str) -> str:
        if self._quote:
            self._quote = "" if word.endswith(self._quote) else self._quote
            return REDACTED
        if self._is_next and word != "=":
            self._is_next = False
            if not word.startswith("--"):
                return self._hidden(word)
        program = word.rsplit("/", 1)[-1].strip("\"'`$(")
        if program in _PROGRAMS and program not in self._words:
            self._begin(program)
            return word
        if _ENDS_COMMAND.search(word):
            self._begin("")
            return word
        if self._program and self._is_placed(word):
            return self._hidden(word)
        if self._takes_pairs() and (pair := _PAIR.match(word)) and pair.end() < len(word):
            return pair[0] + self._hidden(word[pair.end() :])
        return self._of_program(word, word.strip("\"'"))

    def _begin(self, program: str) -> None:
        self._program, self._words, self._flags = program, [], ""

    def _hidden(self, word: str) -> str:
        is_open = word[0] in "\"'" and (len(word) == 1 or not word.endswith(word[0]))
        self._quote = word[0] if is_open else ""
        return REDACTED

    def _of_program(self, word: str, option: str) -> str:
        """A word that is an option, the name of a setting, or any other."""
        if _LONG_OPTION.fullmatch(option) and len(option) > 3 and is_secret_name(option) and not _SWITCH.match(option):
            self._is_next = True
            return word
        if option.startswith("-"):
            self._flags += option.lstrip("-") if not option.startswith("--") else ""
            return self._short_option(word, option)
        is_set = bool(self._words) and self._words[-1].lower() in _SETTERS and is_secret_name(option) and "=" not in option
        self._is_next = is_set or option == "<<<" or _ANNOUNCES.fullmatch(option) is not None or (self._is_next and word == "=")
        if len(self._words) < _WORDS_MAX:
            self._words.append(option)
        return _ORACLE_WORD.sub(rf"\g<1>{REDACTED}", word, count=1) if self._program in _ORACLE else word

    def _short_option(self, word: str, option: str) -> str:
        if self._program in ("kubectl", "oc") and "patch" not in self._words:
            return word  # `logs -p` and others
        for short in _SHORT_OPTIONS.get(self._program, ()):
            if option == short:
                self._is_next = self._program not in _ATTACHED_ONLY
            elif option.startswith(f"{short}=" if short.startswith("--") else short):
                return f"{short}={REDACTED}" if short.startswith("--") else f"{short}{REDACTED}"
        return word
