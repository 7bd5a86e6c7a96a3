"""No value that a lake holds ends a command over other requests, whoever wrote the lake: the request with it is unknown."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from api.cli import run
from ingest.lake import Lake
from tests.recording import START, deployment, recorded, take_in

COLUMNS = ("user_extra", "impersonated_user", "request_object", "response_object", "extra", "review")
ODD = ("", "{", "null", "[]", "5", '"x"', "{}", '{"review": 5, "reviews": 3}', '{"reviews": [{"review": "{"}]}', "[" * 2_000)
POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: few}
spec:
  matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}
  validations: [{expression: "object.spec.replicas < 5 && request.userInfo.username != 'x'"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: few}
spec: {policyName: few, validationActions: [Deny]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: none}
rules: []
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    return take_in(folder / "lake", [recorded(f"id-{number}", START, "create", deployment(f"w{number}", 9)) for number in (1, 2)])


def with_values(lake: Path, column: str, value: str) -> None:
    """Put a value into a column of the first event, and the flag of reviews where it is about them."""
    opened = Lake.open(lake)
    (file,) = opened.files()
    opened.close()
    table = pq.read_table(file, partitioning=None)
    rows = table.to_pylist()
    (row,) = [each for each in rows if each["audit_id"] == "id-1"]
    row[column] = value
    row["flags"] = [*row["flags"], *(["reviewed"] if column == "review" else [])]
    pq.write_table(pa.Table.from_pylist(rows, table.schema), file)


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_a_stored_value_stops_no_other_request(
    column: str, value: str, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = Path(shutil.copytree(lake, tmp_path / "lake"))
    with_values(own, column, value)
    (tmp_path / "policy.yaml").write_text(POLICY)
    assert run(["-q", "--lake", str(own), "replay", "-f", str(tmp_path / "policy.yaml"), "--workers", "1", "-o", "json"]) in (0, 4)
    assert any(f'"deny": {count}' in said for said in [capsys.readouterr().out] for count in (1, 2))
