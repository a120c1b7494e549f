"""Models that train on the network's testbed, by their communication profiles.

The names are those of CASSINI's evaluation. The figures are ours: round ones, of a size that models of this kind are
reported to have on one GPU a server and 50 Gbit/s, and not measured. Whether shifts help hangs on the periods. Those
below are "in step", each twice another, as owners would have them who choose their batches for it; with "own batches"
each training has a period of its own, from four fifths to six fifths of that, in steps of 10 ms.
"""

from __future__ import annotations

from typing import NamedTuple

from scheduler.engine import cassini

from ..lab.chance import Chance


class Model(NamedTuple):
    """What trains.

    Attributes:
        name: the model's.
        parallelism: "data" sends its gradients in one go, "hybrid" also between its layers or its shards.
        profile: one iteration.
    """

    name: str
    parallelism: str
    profile: cassini.Profile


def _model(name: str, parallelism: str, period_ms: int, *phases: tuple[int, int, int]) -> Model:
    """Phases as from and until in milliseconds, and Gbit/s."""
    found = tuple(cassini.Phase(from_ms, until_ms, gbps * 1_000) for from_ms, until_ms, gbps in phases)
    return Model(name, parallelism, cassini.Profile(period_ms, found))


MODELS = (
    _model("VGG11", "data", 120, (70, 120, 45)),
    _model("VGG16", "data", 240, (140, 240, 45)),
    _model("VGG19", "data", 240, (130, 240, 45)),
    _model("ResNet50", "data", 120, (90, 120, 35)),
    _model("WideResNet101", "data", 240, (180, 240, 40)),
    _model("BERT", "data", 240, (150, 240, 40)),
    _model("RoBERTa", "data", 240, (140, 240, 40)),
    _model("XLM", "data", 480, (280, 480, 45)),
    _model("CamemBERT", "data", 240, (160, 240, 40)),
    _model("GPT-1", "hybrid", 240, (60, 90, 25), (150, 240, 40)),
    _model("GPT-2", "hybrid", 480, (80, 140, 25), (220, 280, 25), (360, 480, 45)),
    _model("GPT-3", "hybrid", 960, (100, 200, 25), (300, 400, 25), (500, 600, 25), (720, 960, 45)),
    _model("DLRM", "hybrid", 480, (90, 190, 45), (330, 430, 45)),
)
BATCHES = (0.8, 1.2)
STEP_MS = 10


def with_own_batch(model: Model, chance: Chance) -> Model:
    """The same with another period, and everything in it longer or shorter alike."""
    before_ms = model.profile.period_ms
    period_ms = round(chance.uniform(*BATCHES) * before_ms / STEP_MS) * STEP_MS
    phases = [
        cassini.Phase(
            round(phase.from_ms * period_ms / before_ms), round(phase.until_ms * period_ms / before_ms), phase.mbps
        )
        for phase in model.profile.phases
    ]
    return model._replace(profile=cassini.Profile(period_ms, tuple(phases)))
