"""Buffers whose length is data."""

from typing import Any

import torch
from torch import Tensor, nn


class ResizableBuffers(nn.Module):
    """A module whose buffers take over the sizes and dtypes of a saved state: they are data, not design."""

    def check_saved(self, name: str, saved: Tensor) -> None:
        """Refuse a saved buffer that cannot belong here."""

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        for name, buffer in list(self.named_buffers(recurse=False)):
            saved = state_dict.get(prefix + name)
            if saved is not None:
                self.check_saved(name, saved)
                # A new tensor even for equal sizes: values derived from the old one are stale.
                setattr(self, name, torch.empty_like(saved, device=buffer.device))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
