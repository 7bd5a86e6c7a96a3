"""The rights that a cluster gives to every authenticated user."""

from __future__ import annotations

from ...authorization.rbac import Rule, Rules
from ...cel.library.authorizer import Attributes
from ...request import UserInfo

AUTHENTICATED = "system:authenticated"
NAMES = ("system:discovery", "system:basic-user", "system:public-info-viewer")
# What every authenticated user may do, by the bindings of system:discovery, system:basic-user and system:public-info-viewer
# (kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go).
EVERYBODYS: Rules = (
    Rule(
        ("get",),
        urls=(
            *("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"),
            *("/healthz", "/livez", "/readyz", "/version", "/version/"),
        ),
    ),
    Rule(("create",), ("authorization.k8s.io",), ("selfsubjectaccessreviews", "selfsubjectrulesreviews")),
    Rule(("create",), ("authentication.k8s.io",), ("selfsubjectreviews",)),
)


def is_everybodys(user: UserInfo, asked: Attributes) -> bool:
    """Whether the default bindings allow it to a user."""
    return AUTHENTICATED in user.groups and any(rule.allows(asked) for rule in EVERYBODYS)
