"""Variants of the metrics that published numbers use."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Literal, get_args

from marcir.checks import check_choice
from marcir.errors import ConfigError, did_you_mean

Ideal = Literal["gallery", "retrieved"]
WeightedPrecision = Literal["any", "threshold"]
AveragePrecision = Literal["sum", "trapezoid"]


@dataclass(frozen=True)
class Variants:
    """Which definition a metric follows where published ones differ.

    Attributes:
        ideal: nDCG's ideal is the best that the gallery allows, or the retrieved hits sorted again.
        wap: wAP counts hits with J > 0 and divides by their number, or J >= 0.4 and divides by K.
        ap: The Jaccard mAPs sum precisions; or use trapezoids, and drop queries without a hard positive
            (J >= 0.8) at all three thresholds.
    """

    ideal: Ideal = "gallery"
    wap: WeightedPrecision = "any"
    ap: AveragePrecision = "sum"

    def __post_init__(self) -> None:
        for name, known in (("ideal", Ideal), ("wap", WeightedPrecision), ("ap", AveragePrecision)):
            check_choice(name, getattr(self, name), get_args(known))

    @classmethod
    def from_mapping(cls, chosen: "Mapping[str, str] | Variants | None") -> "Variants":
        """The variants that a mapping names; the others keep their defaults.

        >>> Variants.from_mapping({"ideal": "retrieved"}).ideal
        'retrieved'
        """
        if isinstance(chosen, Variants):
            return chosen
        if not isinstance(chosen, Mapping | None):
            raise ConfigError(f"variants = {chosen!r}: expected a mapping such as {{'ideal': 'retrieved'}}.")
        names = [field.name for field in fields(cls)]
        for name in chosen or ():
            if name not in names:
                raise ConfigError(f"variants: unknown '{name}'. {did_you_mean(str(name), names)}")
        return cls(**(chosen or {}))  # type: ignore[arg-type]  # values are checked above

    def non_default(self) -> dict[str, str]:
        """The variants that are not the default.

        >>> Variants(wap="threshold").non_default()
        {'wap': 'threshold'}
        """
        return {name: value for name, value in asdict(self).items() if value != getattr(Variants, name)}
