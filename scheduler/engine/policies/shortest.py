"""Shortest first, by how long each is thought to execute (Weng et al., NSDI 2022). Nobody takes over by it."""

from __future__ import annotations

from ..values import Service, Workload
from .crowds import NOBODY, Crowd
from .leaf import LeafOrder, Standing
from .locality import TOGETHER_MILLI
from .predicting import DEFAULT_S


class ShortestFirst(LeafOrder):
    """The order. Ties go by first submission, then by id."""

    why = "is shorter"

    def waiting(self, workload: Workload, now_s: int, crowd: Crowd = NOBODY) -> Standing:
        """By what is predicted."""
        predicted_s = workload.service.predicted_s
        return Standing(0, DEFAULT_S if predicted_s is None else predicted_s)

    def running(
        self,
        size_milli: int,
        service: Service,
        running_s: int | None,
        now_s: int,
        crowd: Crowd = NOBODY,
        slowdown_milli: int = TOGETHER_MILLI,
    ) -> Standing:
        """All alike: what runs goes on."""
        return Standing(0)
