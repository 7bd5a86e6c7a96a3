"""Authorization: who may do what, by RBAC and by the other authorizers as far as they are known.

`attributes_of` reads the authorization question of an audit event. `RecordedRbac` and `GivenRbac` hold roles and
bindings. `answer` returns the answer of a server.
"""

from ..other_authorizers import OtherAuthorizers
from .attributes import RequestInfo, attributes_of, request_info
from .authorizer import AuthorizeUser, RecordedDecisions, answer, others_of
from .given import GivenRbac
from .holders import Holders, holders, is_service_account
from .rbac import Binding, Bindings, Opinion, RbacObjects, Rule, Subject, authorize
from .recorded import RecordedRbac

__all__ = [
    "AuthorizeUser",
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
    "attributes_of",
    "authorize",
    "holders",
    "is_service_account",
    "others_of",
    "request_info",
]
