"""Least privilege of every subject of two recorded clusters: the roles are valid, and their proof is what a replay says of them."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from api.cli import run
from pipeline.requests.past import load_history
from pipeline.runs import RunKind, RunStore
from pipeline.runs.window import Window
from pipeline.stages.authorization.overlay import Proposal
from pipeline.stages.authorization.privileges import Privileges, least_privilege
from pipeline.stages.authorization.stage import Authorization
from pipeline.stages.stage import Asked
from queries import LakeReader, open_lake
from tests.rbac_validation import violations

pytestmark = pytest.mark.conformance

SUBJECTS = "SELECT user_name FROM requests WHERE user_name <> '' UNION SELECT impersonator FROM requests WHERE impersonator <> ''"
ODD = """
SELECT DISTINCT coalesce(impersonator, user_name) FROM requests
WHERE impersonator <> '' OR subresource = 'approval' OR resource IN ('clusterroles', 'roles') AND verb = 'create'
LIMIT 12
"""
# A server takes the end of the story for the present: `kubectl get namespaces` at that moment.
NAMESPACES = """
SELECT DISTINCT name FROM requests AS made WHERE resource = 'namespaces' AND verb = 'create' AND code = 201 AND NOT EXISTS (
    FROM requests AS gone WHERE gone.resource = 'namespaces' AND gone.name = made.name AND gone.verb = 'delete' AND gone.code = 200
)
"""


@pytest.fixture(scope="module", params=["rbac-a", "control-plane-a"])
def lake(request: pytest.FixtureRequest, shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a recording alone, with the redaction that every lake has by default."""
    made = tmp_path_factory.mktemp("least") / "lake"
    log = shared / "data" / request.param / "audit.jsonl.zst"
    assert run(["-q", "--lake", str(made), "ingest", str(log), "--cluster", "lab"]) == 0
    return made


def subjects_of(reader: LakeReader) -> list[str]:
    """Those who act as others, approve certificates or write roles, and every seventh of the others."""
    every = [name for (name,) in reader.sql(f"FROM ({SUBJECTS}) ORDER BY 1").fetchall()]
    odd = {name for (name,) in reader.sql(ODD).fetchall()}
    return [name for number, name in enumerate(every) if name in odd or number % 7 == 0]


def replayed(lake: Path, reader: LakeReader, subject: str, found: Privileges) -> Counter[str]:
    """The verdicts of `replay --only` on the requests of a subject that were allowed then."""
    stage = Authorization()
    rules = Proposal.from_objects((each, "") for each in found.manifests)
    summary = stage.run(stage.plan(reader, rules, Asked(replaces_all=True)), lake, 1, None, RunKind.REPLAY)
    rows = pq.read_table(RunStore(lake).run(summary.run_id).verdicts, columns=["audit_id", "recorded", "decision"]).to_pylist()
    asked = "SELECT DISTINCT audit_id FROM requests WHERE user_name = $subject OR impersonator = $subject"
    own = {audit_id for (audit_id,) in reader.connection.execute(asked, {"subject": subject}).fetchall()}
    return Counter(row["decision"] for row in rows if row["audit_id"] in own and row["recorded"] == "admit")


def test_the_proof_is_the_replay_and_the_roles_are_valid(lake: Path) -> None:
    with closing(open_lake(lake)) as reader:
        namespaces = {name for (name,) in reader.sql(NAMESPACES).fetchall()}
        history, checked = load_history(reader, (), Window()), 0
        for subject in subjects_of(reader):
            found = least_privilege(reader, history, "lab", subject)
            assert not violations(found.manifests, namespaces), subject
            if not found.manifests:
                continue
            counts = replayed(lake, reader, subject, found)
            assert (counts["admit"], counts["deny"], counts["unknown"]) == found.proof.check, subject
            assert sum(reason.requests for reason in found.proof.reasons) == counts["deny"] + counts["unknown"], subject
            checked += 1
        assert checked >= 10
