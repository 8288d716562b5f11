"""Whatever runs on a device names the device of the tensors that it makes."""

import ast
from pathlib import Path
from typing import Literal

import pytest
import torch

import marcir
from marcir.data.augment import Augmentation
from marcir.data.resize import eval_transform
from marcir.model.backbone import create_backbone
from marcir.model.encoder import Encoder

SOURCE = Path(marcir.__file__).parent
# Scores are computed on the CPU, whatever device the vectors come from.
ON_A_DEVICE = [
    *(
        path
        for package in ("labels", "losses", "model", "training")
        for path in SOURCE.glob(f"{package}/*.py")
    ),
    *(SOURCE / "data" / name for name in ("augment.py", "dataset.py", "labelled_embeddings.py", "resize.py")),
]
MAKERS = {
    *("arange", "empty", "eye", "full", "linspace", "ones", "tensor", "zeros"),
    *("rand", "randint", "randn", "randperm"),
}


def without_device(text: str) -> list[str]:
    """Calls such as `torch.zeros(3)` that leave the device to chance."""
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and (node.func.value.id, node.func.attr) in {("torch", name) for name in MAKERS}
        and not any(keyword.arg == "device" for keyword in node.keywords)
    ]


def test_the_lint_finds_a_tensor_without_a_device() -> None:
    assert without_device("x = torch.zeros(3, dtype=torch.long)") == [
        "line 1: torch.zeros(3, dtype=torch.long)"
    ]
    assert without_device("x = torch.zeros(3, device=y.device) + y.new_zeros(3) + math.zeros(3)") == []


@pytest.mark.parametrize("path", ON_A_DEVICE, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_tensor_is_made_without_a_device(path: Path) -> None:
    assert without_device(path.read_text("utf-8")) == []


@pytest.mark.parametrize("path", ON_A_DEVICE, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_float64_is_left_to_one_function_because_mps_has_none(path: Path) -> None:
    if path.parent.name in ("labels", "losses") and path.name != "sets.py":
        assert ".double()" not in path.read_text("utf-8")
        assert "dtype=torch.float64" not in path.read_text("utf-8")


# A sum of a tensor of the device "meta", which has no content, and one on the CPU is an error, as on a GPU,
# so that a tensor that was made in the wrong place is found on any machine.


def test_tensors_of_two_devices_do_not_meet_unnoticed() -> None:
    with pytest.raises(RuntimeError, match="device"):
        torch.empty(3, device="meta") + torch.ones(3)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_images_are_augmented_and_resized_where_they_are(dtype: torch.dtype) -> None:
    images = torch.empty(4, 3, 20, 20, dtype=dtype, device="meta")
    made = Augmentation(16)(images, list("abcd"), seed=0, epoch=0)
    assert made.device == eval_transform(images, 16).device == images.device
    assert made.shape == (4, 3, 16, 16)


@pytest.mark.parametrize("embedding", ["projection", "backbone"])
def test_an_encoder_computes_where_it_is(embedding: Literal["projection", "backbone"]) -> None:
    backbone = create_backbone("resnet18", 3, 32)
    encoder = Encoder(backbone, 8, embedding, backbone.mean, backbone.std).to("meta")
    vectors = encoder.embed(torch.empty(2, 3, 32, 32, device="meta"))
    assert vectors.device == encoder.device == torch.device("meta")
    assert vectors.shape == (2, encoder.dim)
