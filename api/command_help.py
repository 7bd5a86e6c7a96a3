"""The list of commands in groups, the help of each with its options in sections, and what to type after a misspelled word."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher
from typing import Any

from typer import TyperException
from typer.core import TyperCommand, TyperGroup

# The commands in the order of `--help`, each with its help line. Each is the function `command` of a module of api/commands. Only
# the module of the given command is imported, because importing all takes longer than most commands run.
GROUPS: Mapping[str, Mapping[str, str]] = {
    "Start": {
        "demo": "Try everything on a bundled audit log",
        "init": "Write an audit policy and the kubeconfig of the webhook",
        "ingest": "Read audit logs and object snapshots into the lake",
        "serve": "Run the webhook sink, the pages and the HTTP API",
    },
    "Decide": {
        "readiness": "Decide whether policies may deny, with the figures",
        "explain": "Explain the verdict on one recorded request",
        "exemptions": "Find narrow exemptions, or review existing ones",
        "rollout": "Plan the way to Deny, or to a level, in waves",
        "gate": "Decide in CI, with an exit code",
        "watch": "Replay events as they arrive",
        "fleet": "Decide on every cluster of the lake, the worst first",
        "replay": "Count the decisions that policies would have made",
        "pod-security": "Find the Pod Security level of each namespace",
        "calibrate": "Compare the replay with the recorded outcomes",
        "policy": "Check the types of policies, or measure their CEL cost",
    },
    "Roles and webhooks": {
        "least-privilege": "Write the smallest roles for what a user did",
        "stack": "Show whether a stack stays in its namespace",
        "webhooks": "Show what admission webhooks did",
        "schema": "Check CustomResourceDefinitions, their objects and fields",
    },
    "Evidence": {
        "violations": "Count the failures that the cluster recorded",
        "doctor": "Report lost evidence and the health of the lake",
        "quarantine": "Show the records that are not events, and try them again",
        "sql": "Ask the views of the lake with SQL",
    },
    "Operate": {
        "runs": "List, show and remove stored replays",
        "compact": "Merge small files",
        "expire": "Delete old events, or only their bodies",
        "publish": "Keep the lake on object storage as Iceberg tables",
    },
}
COMMANDS = {name: line for group in GROUPS.values() for name, line in group.items()}
HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}

# Names that options had in earlier versions: they work, and no help shows them. The key "" is about every command.
_OLD_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "": {"--expires": "--review-by"},
    "doctor": {"--metrics-token": "--metrics-token-file"},
    "exemptions": {"--check": "--check-exemptions"},
    "explain": {"--redact": "--hide"},
    "gate": {"--redact": "--hide", "--max-denied-units": "--max-denied-workloads"},
    "runs": {"--older-than": "--before"},
    "webhooks": {"--page": "--report-file"},
}

# The section of an option in the help of a command that has many options. Others are in the section "Options".
_SECTIONS: Mapping[str, Sequence[str]] = {
    "What is judged": ("policies", "against", "against_log", "from_log", "stage", "renamed", "only_given", "other_authorizers",
                       "kubernetes_version", "policy"),
    "The evidence": ("lake", "cluster", "clusters", "since", "until", "calibration", "at", "extra_roles"),
    "What passes": ("rules", "max_denied_units", "allow_insufficient", "allow_exemptions", "expires", "exit_code", "exemptions",
                    "check_exemptions"),
    "Another machine": ("server", "token_file", "server_ca", "on"),
    "Output": ("counterexamples", "redact", "limit", "output", "report_file", "export", "with_objects", "plan_only", "quiet"),
}  # fmt: skip
_SECTION_OF = {name: section for section, names in _SECTIONS.items() for name in names}
# The options of `serve` are the settings in their order: a section begins at its first one.
_SECTIONS_OF_SERVE = {
    "host": "Listening",
    "client_ca": "Who may write",
    "sink": "What is served",
    "query_host": "The pages and the HTTP API",
    "oidc_issuer": "Who may read, with OIDC",
    "query_seconds_max": "Limits of questions and replays",
    "redact": "Credentials in events",
    "drain": "Storing",
    "retention_days": "Retention",
    "body_bytes_max": "Limits of the sink",
    "log_level": "Logging",
    "lake": "Options",
}
_ARGUMENTS = "Arguments"
_OPTIONS = "Options"
_OPTIONS_IN_ONE_SECTION_MAX = 14
_LIKENESS_MIN = 0.7
# Suggestions that are nearly as like as the best one are named too.
_LIKENESS_LESS = 0.05


def likest(word: str, known: Iterable[str]) -> list[str]:
    """The words that somebody who typed `word` may have meant: the most similar ones, or none."""
    rated = sorted(((SequenceMatcher(None, word, each).ratio(), each) for each in set(known)), reverse=True)
    if not rated or rated[0][0] < _LIKENESS_MIN:
        return []
    return [each for ratio, each in rated if ratio >= rated[0][0] - _LIKENESS_LESS]


class Command(TyperCommand):
    """One command. Its help has sections if there are many options; a misspelled option gets a suggestion."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options; earlier names of options are read as today's."""
        old = _old_options(self.name or "")
        end = args.index("--") if "--" in args else len(args)
        renamed = [_renamed(word, old) for word in args[:end]]
        with _suggesting(self._meant):
            return super().parse_args(ctx, [*renamed, *args[end:]])

    def _meant(self, word: str) -> str:
        """What to type in place of an option that does not exist: an option of this command, or a command that has it."""
        own = likest(word, _long_options(self))
        if word in own or not word.startswith("--"):
            return ""
        others = {name: _long_options(each) for name, each in _every_command() if name != self.name}
        elsewhere = likest(word, {option for options in others.values() for option in options})
        if elsewhere and (not own or _likeness(word, elsewhere[0]) > _likeness(word, own[0])):
            having = [f"hindcast {name}" for name, options in others.items() if elsewhere[0] in options]
            return f". {elsewhere[0]} is an option of: {', '.join(having)}"
        return _did_you_mean(own)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The arguments and options, in sections if there are many options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        shown = [(each, record) for each in self.get_params(ctx) if (record := each.get_help_record(ctx)) is not None]
        are_many = sum(each.param_type_name == "option" for each, _ in shown) > _OPTIONS_IN_ONE_SECTION_MAX
        section = _OPTIONS
        for each, record in shown:
            name = each.name or ""
            if each.param_type_name == "argument":
                section = _ARGUMENTS
            elif self.name == "serve":
                section = _SECTIONS_OF_SERVE.get(name, section)
            else:
                section = _SECTION_OF.get(name, _OPTIONS) if are_many else _OPTIONS
            sections.setdefault(section, []).append(record)
        order = [_ARGUMENTS, *_SECTIONS, *_SECTIONS_OF_SERVE.values()]
        for title in sorted(sections, key=lambda each: order.index(each) if each != _OPTIONS else len(order)):
            with formatter.section(title):
                formatter.write_dl(sections[title])


class Commands(TyperGroup):
    """The commands by name, each imported when it is used; `--help` and completion need only their names and lines.

    `load` gives a command of a name.
    """

    load: Callable[[str], Any]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options before the command's name."""
        with _suggesting(lambda word: _did_you_mean(likest(word, _long_options(self)))):
            return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order of COMMANDS."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name with its options, or None."""
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in self.commands:
            self.commands[cmd_name] = type(self).load(cmd_name)
        return self.commands[cmd_name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first word names. Fails with the most similar command."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"No such command: {args[0]}{_did_you_mean(likest(args[0], COMMANDS))}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """One section for each group of commands."""
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, line in commands.items()])

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """The names of commands that begin with a text."""
        self.commands = {name: TyperCommand(name, help=line) for name, line in COMMANDS.items()}
        return super().shell_complete(ctx, incomplete)


def names_of(command: str, option: str) -> list[str]:
    """The names of an option of a command without dashes: today's, and those that it had in earlier versions."""
    return [option, *(old[2:] for old, now in _old_options(command).items() if now == f"--{option}")]


def _old_options(command: str) -> Mapping[str, str]:
    return {**_OLD_OPTIONS[""], **_OLD_OPTIONS.get(command, {})}


@contextmanager
def _suggesting(meant: Callable[[str], str]) -> Iterator[None]:
    """Within this, an option that does not exist is reported with what `meant` says of it."""
    try:
        yield
    except TyperException as error:
        if (option := getattr(error, "option_name", None)) is not None and hasattr(error, "possibilities"):
            error.possibilities = None
            error.message = f"No such option: {option}{meant(option)}"
        raise


def _did_you_mean(words: Sequence[str]) -> str:
    return f". Did you mean {' or '.join(words)}?" if words else ""


def _renamed(word: str, old: Mapping[str, str]) -> str:
    name, sign, value = word.partition("=")
    return old.get(name, name) + sign + value


def _long_options(command: Any) -> list[str]:
    found = (option for each in command.params for option in (*each.opts, *each.secondary_opts))
    return [option for option in found if option.startswith("--")]


def _every_command() -> Iterable[tuple[str, Any]]:
    return ((name, Commands.load(name)) for name in COMMANDS)


def _likeness(word: str, other: str) -> float:
    return SequenceMatcher(None, word, other).ratio()
