"""Validating admission: ValidatingAdmissionPolicies and their bindings.

The policies themselves are in pipeline/admission/policies, and pipeline/replay walks the requests.
"""

from .stage import Validating

__all__ = ["Validating"]
