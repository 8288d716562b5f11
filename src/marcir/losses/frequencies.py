"""Training frequencies as a module of a loss, saved and moved with it."""

from typing import Literal

from torch import Tensor

from marcir.errors import ConfigError, LabelError
from marcir.labels.statistics import AnchorFrequency, LabelStatistics, PairFrequency
from marcir.losses.resizable_buffers import ResizableBuffers

Frequency = Literal["count", "relative"]


class TrainingFrequencies(ResizableBuffers):
    """The paper's f and h for label sets, from the distinct training label rows (Reading R11).

    Args:
        statistics: Label statistics of the training split.
        pair_frequency: What f counts.
        anchor_frequency: What h is.
        frequency: `count`, or `relative`: divided by the number of training images.
    """

    rows: Tensor
    counts: Tensor

    def __init__(
        self,
        statistics: LabelStatistics,
        pair_frequency: PairFrequency,
        anchor_frequency: AnchorFrequency,
        frequency: Frequency,
    ) -> None:
        super().__init__()
        if not isinstance(statistics, LabelStatistics):
            raise ConfigError(
                f"statistics: expected LabelStatistics, found {type(statistics).__name__}. "
                "Make them with LabelStatistics.from_labels(training_labels)."
            )
        self.register_buffer("rows", statistics.rows)
        self.register_buffer("counts", statistics.counts)
        self.pair_frequency = pair_frequency
        self.anchor_frequency = anchor_frequency
        self.frequency = frequency
        self._derived = statistics

    @property
    def statistics(self) -> LabelStatistics:
        """The statistics of the buffers as they are now."""
        if self._derived.rows is not self.rows or self._derived.counts is not self.counts:
            self._derived = LabelStatistics(self.rows, self.counts)
        return self._derived

    def of_pairs(self, y: Tensor, y_other: Tensor) -> Tensor:
        """f(y_i, y_p). (U, V)"""
        return self._scaled(self.statistics.pair_frequency(y, y_other, self.pair_frequency))

    def of_anchors(self, y: Tensor) -> Tensor:
        """h(y_i). (U,)"""
        return self._scaled(self.statistics.anchor_frequency(y, self.anchor_frequency))

    def of_labels(self) -> Tensor:
        """n_k, the training images with each label; a label never seen counts as one (Reading R10). (L,)"""
        return self._scaled(self.statistics.label_counts.clamp_min(1))

    def _scaled(self, counts: Tensor) -> Tensor:
        return counts / self.statistics.num_images if self.frequency == "relative" else counts

    def check_saved(self, name: str, saved: Tensor) -> None:
        """Refuse rows with another number of labels: they belong to another archive."""
        if name == "rows" and saved.shape[1:] != self.rows.shape[1:]:
            raise LabelError(
                f"the saved label statistics are of {saved.shape[-1]} labels, this loss is of "
                f"{self.rows.shape[1]}. Make the loss with the statistics of the same archive."
            )
