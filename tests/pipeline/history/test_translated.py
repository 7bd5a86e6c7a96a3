"""What an entry of GKE does not say of a user is unknown to a policy, and not empty."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from ingest.decode import decode_events
from ingest.sources.envelopes import expand
from pipeline.authorization import GivenRbac, OtherAuthorizers, request_info
from pipeline.authorization.authorizer import answer
from pipeline.cel import DYN, Environment, Unknown
from pipeline.history.event import Event
from pipeline.policies.inputs import request_value
from pipeline.request import AdmissionRequest, GroupVersionKind, GroupVersionResource, Known, Operation, UserInfo

EXPORTS = Path(__file__).parents[2] / "cases" / "ingest" / "exports"


def test_only_the_name_of_a_user_is_known() -> None:
    users = {}
    for name in ("recorded.jsonl", "gke-sink.json"):
        lines = [event for line in (EXPORTS / name).read_bytes().splitlines() for event in expand(line).events]
        rows = decode_events(lines, "c", datetime(2026, 1, 1, tzinfo=UTC), name).table.to_pylist()
        users[name] = {event.audit_id: event.user for event in map(Event.from_row, rows) if event.resource.resource}
    assert users["recorded.jsonl"].keys() == users["gke-sink.json"].keys()
    for audit_id, user in users["gke-sink.json"].items():
        assert not user.is_whole
        assert users["recorded.jsonl"][audit_id].is_whole
        assert user.username == users["recorded.jsonl"][audit_id].username


def test_a_policy_on_the_groups_of_such_a_user_is_unknown() -> None:
    environment = Environment(version=(1, 36), variables={"request": DYN})
    for user, groups in ((UserInfo("ann", is_whole=False), Unknown), (UserInfo("ann", groups=("dev",)), bool)):
        resource, kind = GroupVersionResource("", "v1", "pods"), Known(GroupVersionKind("", "v1", "Pod"), "")
        nothing, moment = Known(None, ""), datetime(2026, 1, 1, tzinfo=UTC)
        request = AdmissionRequest(
            "c", "1", 0, moment, Operation.CREATE, kind, resource, "", "n", Known("p", ""), user, False, nothing, nothing, nothing
        )
        value = {"request": request_value(request, resource, kind)}
        assert environment.compile("request.userInfo.username == 'ann'").evaluate(value) is True
        assert isinstance(environment.compile("'dev' in request.userInfo.groups").evaluate(value), groups)


def test_what_no_binding_to_such_a_user_allows_a_group_may() -> None:
    info = request_info("GET", "/api/v1/namespaces/n/pods/p")
    assert info is not None
    users = [UserInfo("ann", is_whole=is_whole) for is_whole in (True, False)]
    found = [answer(GivenRbac([]), OtherAuthorizers.NONE, user, info.attributes).allowed for user in users]
    assert found == [False, None]
