"""The read API as its OpenAPI description promises it: what fits the description, or nearly does, is never answered with 5xx.

Left to a hand, because it takes a minute, next to `hindcast serve --no-sink`: `schemathesis run --phases coverage --mode all
--exclude-path-regex '/events$' http://127.0.0.1:7444/api/v1/openapi.json`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import APIOperation, BaseSchema
from schemathesis.specs.openapi.checks import response_schema_conformance

from api.ask.query_app import create_query_app
from api.settings import Settings
from pipeline.stages.validating.execute import run_replay
from pipeline.stages.validating.load import parse_policy_set
from pipeline.stages.validating.planning import plan_replay
from queries import open_lake
from tests.recording import Log, deployment, take_in
from tests.serving import RunningServer

pytestmark = pytest.mark.server

schema = schemathesis.openapi.from_dict(create_query_app(Settings()).openapi())
# Examples of its own choice would be many times as many; HINDCAST_EXAMPLES asks for more of ours.
EXAMPLES = int(os.environ.get("HINDCAST_EXAMPLES", "8"))
quickly = settings(deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
_PATIENCE_SECONDS = 300.0


POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: limit}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  validations: [{expression: object.spec.replicas <= 5}]
"""
FAILED = [{"policy": "limit", "binding": "b", "message": "too many", "expressionIndex": 0, "validationActions": ["Audit"]}]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Where a real server answers over a small log with failures and a refusal, and the name of a run there."""
    folder = tmp_path_factory.mktemp("described")
    log = Log()
    for number in range(40):
        failed = {"validation.policy.admission.k8s.io/validation_failure": json.dumps(FAILED)} if number % 4 == 0 else {}
        level = "Metadata" if number % 7 == 0 else "RequestResponse"
        log.write(("create", "update")[number % 2], deployment(f"web-{number // 2}", number), level=level, annotations=failed)
    lake = take_in(folder / "lake", log.lines)
    reader = open_lake(lake)
    plan = plan_replay(reader, parse_policy_set([("limit", POLICY)]))
    reader.close()
    run_replay(plan, lake)
    with RunningServer(Settings(lake=lake, sink=False, query_port=0), folder / "server.log") as server:
        yield f"http://127.0.0.1:{server.port}", plan.run_id


def operations(chosen: BaseSchema) -> pytest.MarkDecorator:
    """A test for each operation. Those of the library's own `parametrize` share one node id, and pytest-xdist runs one of them."""
    found = [result.ok() for result in chosen.get_all_operations()]
    return pytest.mark.parametrize("operation", found, ids=[each.label for each in found])


@operations(schema.exclude(method="POST").exclude(path_regex="/events$"))
def test_no_question_breaks_the_server(operation: APIOperation, served: tuple[str, str]) -> None:
    url, run_id = served

    @given(case=operation.as_strategy())
    @settings(quickly, max_examples=EXAMPLES)
    def ask(case: schemathesis.Case) -> None:
        if "run_id" in case.path_parameters:
            case.path_parameters["run_id"] = run_id
        case.call_and_validate(base_url=url, checks=[not_a_server_error, response_schema_conformance], timeout=_PATIENCE_SECONDS)

    ask()


@operations(schema.include(method="POST"))
def test_no_order_breaks_the_server(operation: APIOperation, served: tuple[str, str]) -> None:
    @given(case=operation.as_strategy())
    @settings(quickly, max_examples=max(2, EXAMPLES // 4))
    def order(case: schemathesis.Case) -> None:
        case.call_and_validate(base_url=served[0], checks=[not_a_server_error], timeout=_PATIENCE_SECONDS)

    order()


# Every value at and beyond its limit, one after the other; and orders whose answers are asked for further.
PHASES = {"coverage": ("--mode", "negative"), "stateful": ("--max-examples", "10")}


@pytest.mark.parametrize("phase", PHASES)
def test_no_phase_of_its_runner_finds_a_fault(phase: str, served: tuple[str, str], tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "schemathesis.cli",
        "run",
        f"{served[0]}/api/v1/openapi.json",
        "--exclude-path-regex",
        "/events$",
    ]
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    options = ["--phases", phase, *PHASES[phase], "--checks", checks, "--suppress-health-check", "all", "--seed", "1", "--no-color"]
    done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    assert re.search(r"[1-9]\d* generated, [1-9]\d* passed", done.stdout), done.stdout[-5000:]


def test_the_server_still_answers_and_ends_in_order(served: tuple[str, str]) -> None:
    assert httpx.get(f"{served[0]}/api/v1/clusters", timeout=30).json()["rows"][0]["cluster"] == "lab"
