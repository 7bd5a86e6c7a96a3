"""Exemptions: the narrowest exclusions that cover would-be denials, and the manifests with them."""
