"""Authorization: who may do what, as RBAC says it and as far as other authorizers can be known.

`recorded_attributes` reads what was asked from the URL of a request, `RecordedRbac` and `GivenRbac` hold roles and bindings, and
`answer` says what a server would have said.
"""

from .attributes import RequestInfo, recorded_attributes, request_info
from .authorizer import OtherAuthorizers, RecordedDecisions, answer, others_of
from .given import GivenRbac
from .holders import Holders, holders, is_service_account
from .rbac import Binding, Bindings, Opinion, RbacObjects, Rule, Subject, authorize
from .recorded import RecordedRbac

__all__ = [
    "Binding",
    "Bindings",
    "GivenRbac",
    "Holders",
    "Opinion",
    "OtherAuthorizers",
    "RbacObjects",
    "RecordedDecisions",
    "RecordedRbac",
    "RequestInfo",
    "Rule",
    "Subject",
    "answer",
    "authorize",
    "holders",
    "is_service_account",
    "others_of",
    "recorded_attributes",
    "request_info",
]
