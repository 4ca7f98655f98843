"""A small GPT on the source of Python's standard library, with a loop of one's own.

``python examples/gpt.py devices=2 steps=300``, or ``torchrun --nproc-per-node 2 examples/gpt.py``.
"""

from __future__ import annotations

import argparse
import string
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

import drivetrain as dt

CONTEXT, WIDTH, HEADS, LAYERS = 64, 96, 4, 3


class Text(Dataset):
    """Windows of CONTEXT + 1 characters."""

    def __init__(self) -> None:
        text = "".join(path.read_text() for path in sorted(Path(string.__file__).parent.glob("*.py"))[:40])
        self.characters = sorted(set(text))
        numbers = {character: number for number, character in enumerate(self.characters)}
        self.tokens = torch.tensor([numbers[character] for character in text])

    def __len__(self) -> int:
        """Return the number of windows that do not overlap."""
        return (len(self.tokens) - 1) // CONTEXT

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a window and the same one character on."""
        window = self.tokens[index * CONTEXT : (index + 1) * CONTEXT + 1]
        return window[:-1], window[1:]


class GPT(nn.Module):
    """Embeddings, a causal transformer, and a linear layer that shares the embedding's weights."""

    def __init__(self, num_tokens: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(num_tokens, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(WIDTH)
        for embedding in (self.token, self.place):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean cross-entropy of the next characters."""
        x = self.token(tokens) + self.place.weight[: tokens.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=x.device)
        x = self.norm(self.blocks(x, mask=mask, is_causal=True))
        return functional.cross_entropy((x @ self.token.weight.T).flatten(0, 1), targets.flatten())


def train(engine: dt.Engine, num_steps: int, accumulate: int = 2) -> list[float]:
    """Train on this rank; return the losses of all ranks, one a step."""
    dt.seed_everything(0)
    text = Text()
    model = GPT(len(text.characters))
    model, optimizer = engine.setup(model, torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=num_steps)
    batches = engine.setup_dataloaders(DataLoader(text, 16, shuffle=True))
    losses: list[float] = []
    micro = 0
    while len(losses) < num_steps:
        for tokens, targets in batches:
            micro += 1
            is_last = micro % accumulate == 0
            with engine.no_backward_sync(model, enabled=not is_last):
                loss = model(tokens, targets)
                engine.backward(loss / accumulate)
            if not is_last:
                continue
            engine.clip_gradients(model, optimizer, max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            losses.append(engine.all_reduce(loss).item())
            if len(losses) % 20 == 0 or len(losses) == num_steps:
                engine.print(f"step {len(losses)}  loss {losses[-1]:.3f}")
            if len(losses) == num_steps:
                break
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("given", nargs="*", help="devices=2 strategy=ddp steps=100")
    given = dict(pair.split("=", 1) for pair in parser.parse_args().given)
    steps = int(given.pop("steps", 100))
    found = dt.Engine(**given).launch(train, steps)
    sys.exit(0 if found[-1] < found[0] else 1)
