"""torchrun starts all ranks again when one is killed: one script serves the first start and each restart."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.ranks.scripts import run_script

pytestmark = pytest.mark.ranks

SCRIPT = """
import signal
from pathlib import Path
from tests.loops.models import Regression, loader, quiet

class Killed(Regression):
    def on_train_batch_end(self, *_):
        if KILLED and self.trainer.global_step == 8 and self.trainer.global_rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)

KILLED = WANTED and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
torch.manual_seed(3)
module = Killed(dropout=0.3)
saves = dt.ModelCheckpoint("saved", every_n_train_steps=3, save_top_k=-1)
given = {"devices": 2, "strategy": "ddp", "launcher": "auto", "default_root_dir": "."}
trainer = quiet(**given, max_epochs=4, callbacks=[saves])
result = trainer.fit(module, loader(39), ckpt_path="last")
if trainer.is_global_zero:
    torch.save(module.state_dict(), "end.pt")
    print("steps", result.steps_here, result.steps, flush=True)
"""


def test_a_killed_rank_is_started_again_and_the_run_ends_as_if_undisturbed(tmp_path: Path) -> None:
    ends, steps = [], []
    for wanted in (False, True):
        folder = tmp_path / str(wanted)
        folder.mkdir()
        done = run_script(
            folder,
            f"sys.path.insert(0, {str(Path(__file__).parents[2])!r}); WANTED = {wanted}\n{SCRIPT}",
            *("-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
            "--max-restarts=1",
        )
        assert done.returncode == 0, done.stderr
        ends.append(torch.load(folder / "end.pt", weights_only=True))
        steps.append([int(word) for word in done.stdout.split("steps ")[1].split()[:2]])
    (whole, in_all), (here, again) = steps
    assert whole == in_all == again
    assert here == in_all - 6
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
