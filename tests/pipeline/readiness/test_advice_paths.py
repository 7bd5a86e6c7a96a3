"""Advice names the field of the workload's template, because its owner edits that and no Pod."""

from __future__ import annotations

import pytest

from pipeline.readiness.counting.owners import at_root


@pytest.mark.parametrize(
    ("difference", "example", "root", "expected"),
    [
        ('set spec.containers[0].image to "a"', "Pod/w-1", "Deployment/w", 'set spec.template.spec.containers[0].image to "a"'),
        ("add metadata.labels.team", "Pod/w-1", "StatefulSet/w", "add spec.template.metadata.labels.team"),
        ("remove spec.hostPID", "Pod/w-1", "CronJob/w", "remove spec.jobTemplate.spec.template.spec.hostPID"),
        ("set spec.backoffLimit to 1", "Job/w-1", "CronJob/w", "set spec.jobTemplate.spec.backoffLimit to 1"),
        ("add metadata.labels.team", "ReplicaSet/w-1", "Deployment/w", "add spec.template.metadata.labels.team"),
        ("set spec.template.spec.hostPID to false", "ReplicaSet/w-1", "Deployment/w", "set spec.template.spec.hostPID to false"),
        ("set spec.replicas to 2", "Deployment/w", "Deployment/w", "set spec.replicas to 2"),
        ("remove spec.hostPID", "Pod/w", "Pod/w", "remove spec.hostPID"),
        ("remove spec.hostPID", "Pod/w-1", "Workflow/w", "remove spec.hostPID"),
        ("no single change", "Pod/w-1", "Deployment/w", "no single change"),
    ],
)
def test_the_path_is_that_of_the_owner(difference: str, example: str, root: str, expected: str) -> None:
    assert at_root(difference, example, root) == expected
