"""ValidatingAdmissionPolicy: read, compile, evaluate, decide.

`load_policy_set` reads policies, `compile_set` compiles them, and `evaluate_request` evaluates them for a request.
"""

from ingest.user_cache import user_cache

from ...cel.syntax import tables
from .compile import CompiledPolicy, compile_policy
from .decode import binding_from_object, policy_from_object
from .dispatch import CompiledSet, compile_set, evaluate_request
from .load import load_policy_set, parse_policy_set
from .model import Action, Binding, FailurePolicy, NotFoundAction, ParamKind, ParamRef, Policy, PolicySet
from .refusing import refused_expressions
from .verdict import Decision, PolicyVerdict

tables.kept_in = user_cache

__all__ = [
    "Action",
    "Binding",
    "CompiledPolicy",
    "CompiledSet",
    "Decision",
    "FailurePolicy",
    "NotFoundAction",
    "ParamKind",
    "ParamRef",
    "Policy",
    "PolicySet",
    "PolicyVerdict",
    "binding_from_object",
    "compile_policy",
    "compile_set",
    "evaluate_request",
    "load_policy_set",
    "parse_policy_set",
    "policy_from_object",
    "refused_expressions",
]
