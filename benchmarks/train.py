"""How much of the bare speed of the network is left in real training, and in embedding.

    python benchmarks/train.py [--size 128] [--steps 6] [--repeats 3]

Bare step: forward, backward and optimiser of the same backbone on random tensors already in memory. Real
step: packed `ucm` images, augmentation, loss, clipping. In one run, in turns, best of several. Embedding
comes first: training leaves free memory that a command which only embeds does not have. Goals: training at
0.95 of the bare rate, embedding files at 0.9 of the bare inference rate, indexing at 0.85, and
10 s from the start of `marcir train` to its first step with a warm cache.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import repeat
from pathlib import Path

import torch

from marcir.config import Config, DataConfig, EncoderConfig, LossConfig
from marcir.data.prefetch import read_batches
from marcir.model.embed import embed_files
from marcir.model.model import Model
from marcir.search.index import index
from marcir.training.build import build_encoder, build_loss
from marcir.training.checkpoint import Checkpoints
from marcir.training.fabric import decide_precision, start_fabric
from marcir.training.inputs import AugmentedImages, embed_positions
from marcir.training.loop import Trainer
from marcir.training.peers import Peers
from marcir.training.reporter import Reporter
from marcir.training.run_folder import RunFolder, model_config
from marcir.training.task import open_task
from marcir.training.train import resolve_defaults

IMAGES = 2048  # that are embedded and indexed
ROOT = Path(os.environ.get("MARCIR_SHARED", "../shared")) / "data/ucmerced-multilabel"


def best_time(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def report(what: str, bare: float, real: float, goal: float) -> None:
    print(f"{what}: bare {bare:.1f} images/s, real {real:.1f}: {real / bare:.3f} (goal {goal})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=4)
    arguments = parser.parse_args()
    if not ROOT.is_dir():
        sys.exit(f"{ROOT} is missing: set MARCIR_SHARED to the folder that holds data/.")
    config, _ = decide_precision(
        resolve_defaults(
            Config(
                DataConfig(name="ucm", root=str(ROOT), size=arguments.size),
                encoder=EncoderConfig(backbone="resnet18", weights="none"),
                loss=LossConfig("marc-calibrated"),
            )
        )
    )
    task, batch = open_task(config), config.train.batch_size
    fabric = start_fabric(config)
    encoder, loss = build_encoder(config.encoder, task, 0), build_loss(config, task)
    images = torch.rand(batch, 3, arguments.size, arguments.size).contiguous(
        memory_format=torch.channels_last
    )
    model = Model(encoder, model_config(config, task, encoder), Path())
    paths = [task.archive.paths[k] for k in range(IMAGES)]

    def bare_inference() -> None:
        with torch.inference_mode():
            for _ in range(IMAGES // 64):
                model.encoder.embed(images[:64])

    times = [
        (best_time(bare_inference), best_time(lambda: embed_files(model, [str(p) for p in paths], paths)))
        for _ in range(arguments.repeats)
    ]
    bare_rate, real_rate = (IMAGES / min(side) for side in zip(*times, strict=True))
    report("embedding files", bare_rate, real_rate, 0.9)

    def packed() -> None:
        embed_positions(encoder, task.source, task.size, range(IMAGES), 64)

    times = [(best_time(bare_inference), best_time(packed)) for _ in range(arguments.repeats)]
    bare_rate, real_rate = (IMAGES / min(side) for side in zip(*times, strict=True))
    report("embedding packed images", bare_rate, real_rate, 0.9)
    with tempfile.TemporaryDirectory() as folder:
        RunFolder(Path(folder) / "run").save_model(encoder, model.config)
        (Path(folder) / "images").mkdir()
        for path in paths:
            (Path(folder) / "images" / path.name).symlink_to(path.absolute())

        def indexed(store: str) -> None:
            index(f"{folder}/images", f"{folder}/{store}", model=f"{folder}/run")

        times = [
            (best_time(bare_inference), best_time(partial(indexed, f"s{k}")))
            for k in range(arguments.repeats)
        ]
    bare_rate, real_rate = (IMAGES / min(side) for side in zip(*times, strict=True))
    report("indexing, opening model and store included", bare_rate, real_rate, 0.85)

    encoder.requires_grad_(True)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            config,
            fabric,
            Peers(fabric),
            task,
            encoder,
            loss,
            AugmentedImages(task, 0),
            Checkpoints(Path(folder), 1),
            Reporter(1, enabled=False),
            on_best=lambda: None,
            on_epoch=lambda progress: None,
        )
        trainer.network.train()

        def bare() -> None:
            for _ in range(arguments.steps):
                trainer.optimiser.zero_grad()
                trainer.fabric.backward(trainer.network(images).square().sum())
                trainer.optimiser.step()

        def real() -> None:
            batches = repeat((0, list(range(batch))), arguments.steps)
            for ((_, positions, loaded),) in read_batches(batches, trainer._load, size=1, ahead=1):
                trainer._step(positions, loaded, diagnosed=False)

        times = [(best_time(bare), best_time(real)) for _ in range(arguments.repeats)]
        seen = batch * arguments.steps
        bare_rate, real_rate = (seen / min(side) for side in zip(*times, strict=True))
        report("training", bare_rate, real_rate, 0.95)

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "marcir", "train", "--data.name", "ucm", "--data.root", str(ROOT)]
        command += ["--encoder.backbone", "resnet18", "--encoder.weights", "none"]
        command += [
            "--data.size",
            str(arguments.size),
            "--train.checkpoint_minutes",
            "0",
            "--run",
            f"{folder}/run",
        ]
        start = time.perf_counter()
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)  # noqa: S603  # our own
        assert process.stderr is not None
        first = process.stderr.readline()  # written when the first step begins
        print(f"start to first step: {time.perf_counter() - start:.1f} s (goal 10): {first.strip()}")
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
