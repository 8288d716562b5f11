"""Export a model as ONNX, and verify the exported file."""

import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from marcir.errors import TrainingError, needs
from marcir.files import atomic_write
from marcir.model.encoder import Encoder
from marcir.model.model import load_model

TOLERANCE = 1e-4
_BATCHES = (1, 2, 5)


class _Embedder(nn.Module):
    """The exported module: images in unit range to unit vectors."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, images: Tensor) -> Tensor:
        """Unit vectors. (B, C, size, size) -> (B, D)"""
        return self.encoder.embed(images)


def export_onnx(model: str | Path, out: str | Path) -> float:
    """Write a model as ONNX for any batch size; return the largest difference from the model's output.

    The input `images` is float32 in unit range (8-bit values divided by 255), (B, C, size, size); the output
    `vectors` has unit length. Normalisation by mean and standard deviation is included.

    Raises:
        TrainingError: If onnxruntime differs from the model by more than 1e-4; nothing is written then.
    """
    with needs("export"):
        import onnxruntime
    loaded = load_model(model, "cpu")
    config, encoder = loaded.config, loaded.encoder.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    embedder = _Embedder(encoder).eval()
    generator = torch.Generator().manual_seed(0)
    sizes = (config.bands, config.size, config.size)
    with atomic_write(Path(out)) as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's exporter, about its internals
        _write(embedder, torch.rand(2, *sizes, generator=generator, device="cpu"), temporary)
        session = onnxruntime.InferenceSession(temporary.read_bytes(), providers=["CPUExecutionProvider"])
        worst = 0.0
        for batch in _BATCHES:
            images = torch.rand(batch, *sizes, generator=generator, device="cpu")
            with torch.inference_mode():
                expected = embedder(images).numpy()
            exported = session.run(["vectors"], {"images": images.numpy()})[0]
            worst = max(worst, float(np.abs(expected - exported).max()))
        if not worst <= TOLERANCE:
            raise TrainingError(
                f"{out}: onnxruntime differs from the model by {worst:.1e}. Nothing was written."
            )
    return worst


def _write(embedder: nn.Module, images: Tensor, path: Path) -> None:
    program = torch.onnx.export(
        embedder,
        (images,),
        input_names=["images"],
        output_names=["vectors"],
        dynamic_shapes={"images": {0: torch.export.Dim("batch", min=1)}},
        dynamo=True,
        verbose=False,
    )
    if program is None:
        raise TrainingError("torch could not export the model.")
    program.save(str(path), external_data=False)
