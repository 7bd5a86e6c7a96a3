"""The stage of Pod Security: levels of the Pod Security Standards over recorded requests.

Follows k8s.io/pod-security-admission, the code of the admission plugin PodSecurity. `checks/` says what a level forbids in a Pod.
"""
