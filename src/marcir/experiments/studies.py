"""The ablation studies by name: those of the paper, on our grids, and our own."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from marcir.catalog import LOSSES, loss_options
from marcir.checks import RANDOM_WEIGHTS
from marcir.config import Config, LossConfig
from marcir.experiments.plan import Plan, Run, with_seed
from marcir.experiments.record import UNKNOWN_LABELS
from marcir.labels.statistics import ANCHOR_FREQUENCIES, PAIR_FREQUENCIES

ALPHAS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)
BETAS = (0.0, 0.1, 0.5, 1.0, 2.0)
TAUS = (0.05, 0.1, 0.2, 0.3)
ANNEALS = (0.01, 0.05, 0.1)
RATES = (0.1, 0.01, 0.001)
SCHEDULES = ("restarts", "step", "cosine")
MARCS = ("marc", "wg-marc")
OURS = ("marc-calibrated", "marc-proto")
COMPARED = ("mulsupcon", "marc", "marc-calibrated")
# One option of calibrated MARC at a time, the others at their defaults.
CALIBRATED: dict[str, tuple[Any, ...]] = {
    "tau": (0.1, 0.15, 0.2, 0.25, 0.3, 0.4),
    "delta": (0.0, 0.25, 0.5, 0.75, 1.0),
    "gamma": (0.0, 0.5, 1.0, 2.0),
    "mix": (0.0, 0.25, 0.5, 0.75, 1.0),
    "plr": (False, True),
}
# The same for Prototype MARC.
PROTOTYPE: dict[str, tuple[Any, ...]] = {
    "lam": (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0),
    "rarity": (0.0, 0.25, 0.5, 1.0),
    "tau": (0.2, 0.3, 0.4),
    "tau_proto": (0.2, 0.3, 0.4, 0.5),
    "beta": (0.1, 0.3, 1.0),
    "mix": (0.0, 0.5, 1.0),
    "delta": (0.0, 0.25, 0.5, 1.0),
    "prototype_anchors": (True, False),
}


@dataclass(frozen=True)
class Variant:
    """A run of a study, on any dataset and with any seed.

    Attributes:
        loss: The loss's name.
        setting: The varied settings, as in the table.
        options: The loss's options.
        encoder: Settings of the encoder.
        train: Settings of training.
    """

    loss: str
    setting: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    encoder: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Any] = field(default_factory=dict)

    def apply(self, base: Config) -> Config:
        """Replace settings of a base configuration by those of this variant."""
        return replace(
            base,
            loss=LossConfig(self.loss, self.options),
            encoder=replace(base.encoder, **self.encoder),
            train=replace(base.train, **self.train),
        )


@dataclass(frozen=True)
class Study:
    """A question, and the runs that answer it.

    Attributes:
        question: The question.
        variants: Yields its runs.
        unfrozen: Whether it needs a trainable backbone.
        pretrained: Whether it needs pretrained weights.
        from_plan: Whether its runs are not variants, but those of the plan that hide labels.
    """

    question: str
    variants: Callable[[], Iterable[Variant]]
    unfrozen: bool = False
    pretrained: bool = False
    from_plan: bool = False

    def refusal(self, plan: Plan) -> str | None:
        """Why it cannot be performed with this plan; None where it can."""
        if self.from_plan and not plan.hides_labels:
            return "the plan hides no labels: set labels, such as {hide: [0.3, 0.6]}"
        if not self.from_plan and plan.hides_labels:
            return "the plan hides labels, and this study has complete ones: remove labels from the plan"
        if self.unfrozen and any(base.encoder.frozen for base in plan.bases):
            return "it needs a backbone that is trained: set encoder.frozen to false"
        if self.pretrained and any(base.encoder.weights in RANDOM_WEIGHTS for base in plan.bases):
            return "it needs first weights to compare with none: set encoder.weights"
        return None

    def runs(self, name: str, plan: Plan) -> Iterator[Run]:
        """Its runs on all datasets and with all seeds of a plan."""
        if self.from_plan:
            yield from (run for run in plan.runs() if run.study == name)
            return
        for seed in plan.seeds:
            for base in plan.bases:
                for variant in self.variants():
                    config = variant.apply(with_seed(base, seed))
                    yield Run(config, variant.loss, name, dict(variant.setting))


def _surface(plr: bool) -> Iterator[Variant]:
    for alpha, beta in product(ALPHAS, BETAS):
        setting = {"alpha": alpha, "beta": beta}
        yield Variant("marc", setting, {**setting, "plr": plr})


def _options(losses: Iterable[str], option: str, values: Iterable[Any], **fixed: Any) -> Iterator[Variant]:
    for loss, value in product(losses, values):
        yield Variant(loss, {option: value}, {option: value, **fixed})


def _temperatures() -> Iterator[Variant]:
    """The paper's 13 losses; MARC with tau as a factor, and in its direct form without tau."""
    for loss in LOSSES:
        if loss in MARCS:
            yield from _options([loss], "tau", TAUS, tau_mode="scale")
            yield Variant(loss, {"tau_mode": "direct"})
        elif loss not in OURS and "tau" in loss_options(loss):
            yield from _options([loss], "tau", TAUS)
    yield from _options(["oml"], "anneal", ANNEALS)


def _training(losses: Iterable[str], setting: str, values: Iterable[Any]) -> Iterator[Variant]:
    for loss, value in product(losses, values):
        yield Variant(loss, {setting: value}, train={setting: value})


def _pretraining() -> Iterator[Variant]:
    for loss in MARCS:
        yield Variant(loss, {"pretrained": "yes"})
        yield Variant(loss, {"pretrained": "no"}, encoder={"weights": "none"})


def _embeddings() -> Iterator[Variant]:
    for loss, layer in product(COMPARED, ("projection", "backbone")):
        yield Variant(loss, {"embedding": layer}, encoder={"embedding": layer})


def _one_at_a_time(loss: str, options: Mapping[str, tuple[Any, ...]]) -> Iterator[Variant]:
    for option, values in options.items():
        yield from _options([loss], option, values)


STUDIES: dict[str, Study] = {
    "alpha-beta-t": Study("alpha x beta for MARC with T only", lambda: _surface(plr=False)),
    "alpha-beta-wt": Study("alpha x beta for MARC with w and T", lambda: _surface(plr=True)),
    "w-alpha": Study(
        "MARC with w: alpha, without beta", lambda: _options(["marc"], "alpha", ALPHAS, beta=0.0)
    ),
    "w-beta": Study("MARC with w: beta, without alpha", lambda: _options(["marc"], "beta", BETAS, alpha=0.0)),
    "tau": Study("the temperature of every loss of the paper", _temperatures),
    "pretraining": Study(
        "MARC and Wg-MARC from ImageNet weights or from none", _pretraining, unfrozen=True, pretrained=True
    ),
    "lr": Study("the learning rate, for MARC and Wg-MARC", lambda: _training(MARCS, "lr", RATES)),
    "schedule": Study("how it falls, for MARC and Wg-MARC", lambda: _training(MARCS, "schedule", SCHEDULES)),
    "tau-mode": Study(
        "MARC's T as the temperature itself or as a factor of tau",
        lambda: _options(MARCS, "tau_mode", ("direct", "scale")),
    ),
    "pair-frequency": Study(
        "what f counts in MARC's weights", lambda: _options(["marc"], "pair_frequency", PAIR_FREQUENCIES)
    ),
    "anchor-frequency": Study(
        "what h is in MARC's temperature", lambda: _options(["marc"], "anchor_frequency", ANCHOR_FREQUENCIES)
    ),
    "sampler": Study(
        "label-aware or shuffled batches", lambda: _training(COMPARED, "sampler", ("shuffle", "label-aware"))
    ),
    "views": Study("one or two augmented versions in a batch", lambda: _training(COMPARED, "views", (1, 2))),
    "embedding": Study("which layer is compared", _embeddings, unfrozen=True),
    "calibrated": Study(
        "calibrated MARC, one option at a time", lambda: _one_at_a_time("marc-calibrated", CALIBRATED)
    ),
    "marc-proto": Study(
        "Prototype MARC, one option at a time", lambda: _one_at_a_time("marc-proto", PROTOTYPE)
    ),
    UNKNOWN_LABELS: Study(
        "unknown labels of training images: left open, or taken for absent", tuple, from_plan=True
    ),
}
