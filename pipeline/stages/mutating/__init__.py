"""MutatingAdmissionPolicies over recorded requests: what they would have made of each object.

`applying` applies the two kinds of patches as the API server does. `chain` runs policies over one request in rounds,
and `stage` walks the log.
"""
