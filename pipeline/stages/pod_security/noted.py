"""The configuration of the plugin, which is in no log, as far as the notes of the plugin in the log show it.

A namespace without a label of a mode shows the default of that mode, where a note names it. A note `exempt` names no rule, but the
request that it stands on has the exempt user or namespace.
"""

from __future__ import annotations

from queries import LakeReader

from ...request import Unknown
from ...requests.kept.whole import rows_about
from ...runs.window import Window
from .checks.table import Level
from .configuration import Configuration
from .labels import LabelsInForce
from .policy import DEFAULT, PRIVILEGED, LevelVersion, Mode

_NOTES = """
    SELECT cluster, namespace, note, level, version, CASE note WHEN 'exempt' THEN message END AS why, user_name, min(ts) AS ts
    FROM pod_security_notes
    WHERE note IN ('enforce-policy', 'audit-violations', 'exempt') AND namespace IS NOT NULL AND ($until IS NULL OR ts < $until)
    GROUP BY ALL
    ORDER BY ALL
"""
_MODES = {"enforce-policy": Mode.ENFORCE, "audit-violations": Mode.AUDIT}


def noted_configuration(reader: LakeReader, labels: LabelsInForce, window: Window) -> Configuration:
    """The defaults and exemptions that the notes of a cluster show. The notes of several clusters are not taken together."""
    # Those of a window do not take the place of those of the whole log.
    name = "pod-security-notes" if window.until is None else "pod-security-notes-until"
    rows = rows_about(reader, name, _NOTES, {"until": window.until})
    if len({row["cluster"] for row in rows}) != 1:
        return Configuration()
    defaults: dict[Mode, set[LevelVersion]] = {mode: set() for mode in _MODES.values()}
    for row in rows:
        mode, found = _MODES.get(row["note"]), labels.at(row["cluster"], row["namespace"], row["ts"])
        if mode is None or isinstance(found, Unknown) or mode in found.value or f"{mode}-version" in found.value:
            continue
        told = LevelVersion(Level(row["level"]), row["version"])
        # Where no mode objects, the plugin notes this whatever the version is.
        if told != PRIVILEGED:
            defaults[mode].add(told)
    return Configuration(
        {
            mode: (*defaults.get(mode, ()), before)[0] if len(defaults.get(mode, ())) == 1 else before
            for mode, before in DEFAULT.items()
        },
        frozenset(row["user_name"] for row in rows if row["why"] == "user"),
        frozenset(row["namespace"] for row in rows if row["why"] == "namespace"),
    )
