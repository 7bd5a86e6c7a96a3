"""The SQL macros generated from the table of queries/reach_rules.py, each with the header of a file of queries/macros.

The view `reach` uses them: `queries/views/reach.sql`. `queries/reach.py` reads the same table in Python.
"""

from __future__ import annotations

from collections.abc import Iterable

from ingest.notes import REVIEW, WORDING
from ingest.server.wordings import DENIAL_PREFIX, WORDINGS

from .reach import BEFORE, EXEMPT_WHY, NO_ADMISSION, NUMBERS, Answer
from .reach_rules import (
    ASKED_BY_FAILURE,
    AUTHORIZER_REASON,
    CONNECT,
    CONNECT_SUBRESOURCES,
    DECISION,
    EMPTY,
    EXEMPT,
    FAILURE,
    MUTATION_PREFIX,
    NOTHING,
    PROVEN_BY_DECISION,
    PROVEN_BY_FAILURE,
    READ,
    RULES,
    STAGES,
    UNRECORDED,
    URL,
    WEBHOOK_NAME,
    WRITE,
    WRITE_VERBS,
    Rule,
)


def macros() -> dict[str, str]:
    """The generated macros, as the text of files of queries/macros, by name."""
    return {
        "denial_prefix": _DENIAL_PREFIX,
        "denied_by_policy": _DENIED_BY_POLICY.format(condition=_sql(next(rule for rule in RULES if rule.outcome == "vap"))),
        "exempt_from_policies": _EXEMPT,
        "request_way": _WAY,
        "recorded_wording": _RECORDED_WORDING,
        "reach_rule": _RULE.format(cases="\n".join(f"    WHEN {_sql(rule)} THEN {n}" for n, rule in enumerate(RULES, 1))),
        "reach_outcome": _LOOKUP.format(
            name="reach_outcome",
            promise="what became of a request: `allowed`, `open`, or what refused it",
            values=", ".join(_text(rule.outcome) for rule in RULES),
        ),
        "reach_why": _LOOKUP.format(
            name="reach_why", promise="why a request came as far as it did", values=", ".join(_text(rule.why) for rule in RULES)
        ),
        "reach_passed": _PASSED,
        "reach_stopped": _LOOKUP.format(
            name="reach_stopped",
            promise="the number of the stage that refused a request, or of the last that may have; null for none",
            values=", ".join(str(NUMBERS[rule.stopped]) if rule.stopped else "NULL" for rule in RULES),
        ),
        "policies_answer": _POLICIES_ANSWER,
        "policies_why": _POLICIES_WHY,
        "stage_name": _STAGE_NAME,
        "stage_before": _STAGE_BEFORE,
        "stage_answer": _STAGE_ANSWER,
        "reach_rules": _TABLE,
        "reach_stages": _STAGES,
    }


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _list(values: Iterable[str]) -> str:
    return "(" + ", ".join(map(_text, sorted(values))) + ")"


def _sql(rule: Rule) -> str:
    """The conditions of a rule over the arguments of macro reach_rule. A condition is null only if an argument is null."""
    tests = [_codes(rule.codes)]
    if rule.ways:
        tests.append(f"way IN {_list(rule.ways)}")
    if rule.verbs:
        tests.append(f"verb IN {_list(rule.verbs)}")
    if rule.subresources:
        tests.append(f"subresource IN {_list(rule.subresources)}")
    if rule.resources:
        pairs = " OR ".join(f"(coalesce(api_group, '') = {_text(g)} AND resource = {_text(r)})" for g, r in sorted(rule.resources))
        tests.append(f"({pairs})")
    if rule.reason:
        tests.append(f"reason = {_text(rule.reason)}")
    if rule.listed:
        tests.append(f"listed = {_text(rule.listed)}")
    if rule.is_silent:
        tests.append("coalesce(message, '') = '' AND coalesce(reason, '') = ''")
    if rule.is_untold:
        tests.append("coalesce(message, '') = ''")
    if rule.decision is not None:
        tests.append(f"coalesce(annotations[{_text(DECISION)}], '') = {_text(rule.decision)}")
    if rule.authorizer_reason:
        tests.append(f"annotations[{_text(AUTHORIZER_REASON)}] = {_text(rule.authorizer_reason)}")
    if rule.says:
        tests.append(f"regexp_matches(wording, {_text(_noted_or_said(rule.says))})")
    if rule.is_reviewed:
        tests.append(f"map_contains(notes, {_text(REVIEW)})")
    if rule.by_mutating_webhook:
        tests.append(_BY_MUTATING_WEBHOOK)
    return " AND ".join(tests)


def _noted_or_said(name: str) -> str:
    """The pattern of a wording over the argument `wording`: its name in a note, or its form in a text."""
    return f"(?s)^\\x00(?:.*,)?{name}(?:,|\\z)|(?:{WORDINGS[name]})"


def _codes(codes: range | tuple[int, ...]) -> str:
    if isinstance(codes, tuple):
        # DuckDB turns a long IN into a join, which carries bodies along.
        return f"list_position({list(codes)}, code) > 0" if len(codes) > 1 else f"code = {codes[0]}"
    if codes.start <= 0:
        return f"coalesce(code, 0) < {codes.stop}"
    return f"code >= {codes.start}" if codes.stop == 2**31 else f"code BETWEEN {codes.start} AND {codes.stop - 1}"


_BY_MUTATING_WEBHOOK = f"""len(list_filter(
        map_entries(annotations),
        lambda annotation: CASE -- AND would parse every value, and most are not JSON
            WHEN starts_with(annotation.key, {_text(MUTATION_PREFIX)}) THEN CASE
                WHEN json_valid(annotation.value)
                THEN nullif(annotation.value ->> '$.webhook', '') = regexp_extract(message, {_text(WEBHOOK_NAME)}, 1)
            END
        END
    )) > 0"""

_DENIAL_PREFIX = f"""-- regular expression (RE2) of what stands before the text of a denial: `RESOURCE.GROUP "NAME" is forbidden: `
CREATE MACRO denial_prefix() AS {_text(DENIAL_PREFIX)}
"""

# Its rule is the first of those about refusals. `outcome = 'vap'` says the same, but then DuckDB plans all rules.
_DENIED_BY_POLICY = """-- whether a ValidatingAdmissionPolicy refused a request; false or null if not
-- code: HTTP status code, or null
-- wording: responseStatus.message, in which redaction keeps this wording
CREATE MACRO denied_by_policy(code, wording) AS {condition}
"""

# No text of an API server begins with this byte.
_RECORDED_WORDING = f"""-- the text of an answer; of a redacted one chr(0) and the names of its wordings, with commas between them
-- message: responseStatus.message
-- notes: of the event
CREATE MACRO recorded_wording(message, notes) AS CASE
    WHEN message IS NULL THEN NULL
    WHEN notes[{_text(WORDING)}] IS NULL THEN message
    ELSE chr(0) || notes[{_text(WORDING)}]
END
"""

_EXEMPT = f"""-- whether ValidatingAdmissionPolicies are never asked about a resource, whatever their rules say
-- api_group: of objectRef
-- resource: of objectRef
CREATE MACRO exempt_from_policies(api_group, resource) AS coalesce((api_group, resource) IN (
{", ".join(f"({_text(group)}, {_text(resource)})" for group, resource in sorted(EXEMPT))}
), false)
"""

_WAY = f"""-- the way of a request: `write`, `connect`, `read`, `empty` (nothing was there to delete) or `url` (no resource)
-- verb: of the event
-- resource: of objectRef
-- subresource: of objectRef
-- code: HTTP status code, or null
-- listed: of a deletecollection, see `reach_rule`
CREATE MACRO request_way(verb, resource, subresource, code, listed) AS CASE
    WHEN coalesce(resource, '') = '' THEN '{URL}'
    WHEN coalesce(subresource IN {_list(CONNECT_SUBRESOURCES)}, false) THEN '{CONNECT}'
    WHEN coalesce(verb NOT IN {_list(WRITE_VERBS)}, true) THEN '{READ}'
    WHEN verb = 'deletecollection' AND listed = '{NOTHING}' AND code BETWEEN 200 AND 299 THEN '{EMPTY}'
    ELSE '{WRITE}'
END
"""

_RULE = f"""-- the number of the rule of queries/reach_rules.py that says how far a request came
-- way: see `request_way`
-- verb: of the event
-- api_group: of objectRef
-- resource: of objectRef
-- subresource: of objectRef
-- code: HTTP status code, or null
-- reason: responseStatus.reason
-- message: responseStatus.message
-- wording: see `recorded_wording`
-- annotations: of the event
-- notes: of the event
-- listed: of a deletecollection `{UNRECORDED}` where its answer shows no list, `{NOTHING}` where that is empty, else null
CREATE MACRO reach_rule(
    way, verb, api_group, resource, subresource, code, reason, message, wording, annotations, notes, listed
) AS CASE
{{cases}}
END
"""

_LOOKUP = """-- {promise}
-- rule: number of a rule, see `reach_rule`
CREATE MACRO {name}(rule) AS [{values}][rule]
"""

_PASSED = f"""-- the number of the last stage that a request surely passed, 0 for none: by its rule, or proven by an annotation
-- rule: number of a rule, see `reach_rule`
-- annotations: of the event
-- notes: of the event
CREATE MACRO reach_passed(rule, annotations, notes) AS greatest(
    [{", ".join(str(NUMBERS[rule.passed]) if rule.passed else "0" for rule in RULES)}][rule],
    CASE
        WHEN map_contains(annotations, {_text(FAILURE)}) OR map_contains(notes, {_text(REVIEW)})
        THEN {NUMBERS[PROVEN_BY_FAILURE]}
        WHEN annotations[{_text(DECISION)}] = 'allow' THEN {NUMBERS[PROVEN_BY_DECISION]}
        ELSE 0
    END
)
"""

_STAGE_LIST = f"[{', '.join(_text(stage.name) for stage in STAGES)}]"

_PLUGINS, _POLICIES = NUMBERS["plugins"], NUMBERS["policies"]

_POLICIES_ANSWER = f"""-- `stage_answer` for policies
-- way: see `request_way`
-- is_exempt: see `exempt_from_policies`
-- passed: see `stage_answer`
-- stopped: see `stage_answer`
CREATE MACRO policies_answer(way, is_exempt, passed, stopped) AS CASE
    WHEN is_exempt OR way NOT IN {_list((WRITE, CONNECT))} THEN '{Answer.NOT_REACHED}'
    WHEN passed >= {_POLICIES} THEN '{Answer.ADMITTED}'
    WHEN passed >= {_PLUGINS} AND stopped = {_POLICIES} THEN '{Answer.DENIED}'
    WHEN passed >= {_PLUGINS} THEN '{Answer.ASKED}'
    WHEN stopped < {_POLICIES} THEN '{Answer.NOT_REACHED}'
    ELSE '{Answer.UNKNOWN}'
END
"""

_POLICIES_WHY = f"""-- why policies were asked about a request, or not, or why that is not known
-- way: see `request_way`
-- is_exempt: see `exempt_from_policies`
-- passed: see `stage_answer`
-- stopped: see `stage_answer`
-- rule: number of a rule, see `reach_rule`
CREATE MACRO policies_why(way, is_exempt, passed, stopped, rule) AS CASE
{chr(10).join(f"    WHEN way = {_text(way)} THEN {_text(why)}" for way, why in NO_ADMISSION.items())}
    WHEN is_exempt THEN {_text(EXEMPT_WHY)}
    WHEN passed = {_PLUGINS} AND stopped IS DISTINCT FROM {_POLICIES} THEN {_text(ASKED_BY_FAILURE)}
    ELSE reach_why(rule)
END
"""

_STAGE_NAME = f"""-- the name of a stage of the API server; null for 0 and null
-- number: of the stage, in the order in which a request passes them
CREATE MACRO stage_name(number) AS {_STAGE_LIST}[number]
"""

_STEPS = ", ".join(f"'{way} {name}': {before}" for (way, name), before in sorted(BEFORE.items()))

_STAGE_ANSWER = f"""-- what a stage said: `admitted`, `denied`, `asked` (its answer is not known), `not reached` or `unknown`
-- way: see `request_way`
-- passed: number of the last stage that the request surely passed
-- stopped: number of the stage that refused it, or of the last that may have; null where that is not known
-- stage: name of the stage
CREATE MACRO stage_answer(way, passed, stopped, stage) AS CASE
    WHEN stage_before(way, stage) IS NULL THEN '{Answer.NOT_REACHED}'
    WHEN passed >= list_position({_STAGE_LIST}, stage) THEN '{Answer.ADMITTED}'
    WHEN passed >= stage_before(way, stage) AND stage_name(stopped) = stage THEN '{Answer.DENIED}'
    WHEN passed >= stage_before(way, stage) THEN '{Answer.ASKED}'
    WHEN stopped < list_position({_STAGE_LIST}, stage) THEN '{Answer.NOT_REACHED}'
    ELSE '{Answer.UNKNOWN}'
END
"""

_STAGE_BEFORE = f"""-- the number of the stage before another on a way, 0 for none; null where the stage does not stand on that way
-- way: see `request_way`
-- stage: name of the stage
CREATE MACRO stage_before(way, stage) AS (MAP {{{_STEPS}}})[way || ' ' || stage]
"""


def _row(number: int, rule: Rule) -> str:
    stages = [_text(stage) if stage else "NULL" for stage in (rule.passed, rule.stopped)]
    return f"({number}, {_text(rule.outcome)}, {', '.join(stages)}, {_text(rule.why)})"


_TABLE = f"""-- one row per rule that says how far a request came; the first that applies counts
--
-- Columns: rule, outcome, passed, stopped, why. Their conditions and sources stand in queries/reach_rules.py.
CREATE MACRO reach_rules() AS TABLE
SELECT * FROM (VALUES
{", ".join(_row(number, rule) for number, rule in enumerate(RULES, 1))}
) AS rules(rule, outcome, passed, stopped, why)
"""

_STAGES = f"""-- one row per stage of the API server, in the order in which a request passes them
--
-- Columns: number, stage, does (what happens there).
CREATE MACRO reach_stages() AS TABLE
SELECT * FROM (VALUES
{", ".join(f"({n}, {_text(stage.name)}, {_text(stage.does)})" for n, stage in enumerate(STAGES, 1))}
) AS stages(number, stage, does)
"""
