"""The hardware at run time."""

import torch

import drivetrain as dt
from fakechip.facts import CHIP


class FakeChip(dt.Accelerator):
    """Computes on the processor, and counts the batches that it is given."""

    name = "fakechip"
    facts = CHIP

    def __init__(self):
        self.moved = 0

    def device(self, device_id):
        if not 0 <= device_id < CHIP.count():
            raise ValueError(f"there is no chip {device_id}")
        return torch.device("cpu")

    def setup(self, device):
        self.moved = 0

    def teardown(self, device):
        pass

    def move(self, batch, device):
        self.moved += 1
        return super().move(batch, device)

    def memory_bytes(self, device):
        return {"used": 0, "peak": 0}

    def stats(self, device):
        return {"chip.moved": float(self.moved)}

    def peak_flops(self, device, number):
        return None

    def rng_state(self, device):
        return None

    def set_rng_state(self, device, state):
        pass
