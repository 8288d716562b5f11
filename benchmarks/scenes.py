"""Are the generated scenes hard enough to mean something, and can they be learned?

    python benchmarks/scenes.py [--epochs 30]

On nDCG@100 a random ResNet-18 must be at most 15 points above chance, and a short training at least 20 above
that. Ends with an error where either fails. About 10 minutes on 2 cores.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from marcir.config import Config, DataConfig, EncoderConfig, LossConfig, TrainConfig
from marcir.training.train import train

COLUMN = "nDCG@100"
OVER_CHANCE = 15
OVER_RANDOM = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=128)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = Config(
            DataConfig(name="scenes"),
            encoder=EncoderConfig(backbone="resnet18", weights="none"),
            loss=LossConfig("mulsupcon"),
            train=TrainConfig(
                epochs=arguments.epochs, batch_size=arguments.batch_size, schedule="cosine", precision="auto"
            ),
            run=str(Path(folder) / "run"),
        )
        scores = train(config)
    if scores is None:
        sys.exit("only the first process has the scores")
    chance, random = (100 * scores.references[row][COLUMN] for row in ("chance", "untrained"))
    trained = 100 * scores.model[COLUMN]
    print(f"{COLUMN}: chance {chance:.1f}, random weights {random:.1f}, trained {trained:.1f}")
    if random - chance > OVER_CHANCE or trained - random < OVER_RANDOM:
        sys.exit(
            f"expected at most {OVER_CHANCE} over chance, then at least {OVER_RANDOM} over random weights"
        )


if __name__ == "__main__":
    main()
