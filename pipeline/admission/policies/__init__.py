"""ValidatingAdmissionPolicy: read, compile, evaluate, decide.

`load_policy_set` reads policies, `compile_policy` compiles one, `evaluate_request` says what they make of a request.
"""

from .decode import binding_from_object, policy_from_object
from .load import load_policy_set, parse_policy_set
from .model import Action, Binding, FailurePolicy, GivenObject, NotFoundAction, ParamKind, ParamRef, Policy, PolicySet

__all__ = [
    "Action",
    "Binding",
    "FailurePolicy",
    "GivenObject",
    "NotFoundAction",
    "ParamKind",
    "ParamRef",
    "Policy",
    "PolicySet",
    "binding_from_object",
    "load_policy_set",
    "parse_policy_set",
    "policy_from_object",
]
