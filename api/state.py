"""What the application keeps for its routes and pages: they ask for these by type."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from .ask.asking import Asker
from .work.explanations import Explanations
from .work.jobs import Jobs


def asker_of(request: Request) -> Asker:
    """The asker that gets a request's questions."""
    asker: Asker = request.app.state.asker
    return asker


def jobs_of(request: Request) -> Jobs:
    """The replays of the server that answers a request."""
    jobs: Jobs = request.app.state.jobs
    return jobs


def explanations_of(request: Request) -> Explanations:
    """The object that explains verdicts."""
    found: Explanations = request.app.state.explanations
    return found


Asking = Annotated[Asker, Depends(asker_of)]
Working = Annotated[Jobs, Depends(jobs_of)]
Explaining = Annotated[Explanations, Depends(explanations_of)]
