"""The strategy at run time."""

from contextlib import nullcontext

import torch

import drivetrain as dt


class MeanRuntime(dt.Strategy):
    """The whole model on each rank; after backward, one all_reduce of all gradients."""

    is_whole_everywhere = True
    has_whole_model = True

    def setup(self, module, step, *, one_backward=True):
        self.precision.convert_module(module)
        module.to(self.device)
        self._module, self._step, self._is_apart = module, step, False
        with torch.no_grad():
            for one in (*module.parameters(), *module.buffers()):
                one.copy_(self.collectives.broadcast(one.detach(), source=0))

    def teardown(self, module):
        self.precision.restore_module(module)
        self._module = self._step = None

    def share_buffers(self, module):
        with torch.no_grad():
            for one in module.buffers():
                one.copy_(self.collectives.broadcast(one.detach(), source=0))

    def training_step(self, *arguments):
        with self.precision.forward_context(self.device.type):
            return self._step(*arguments)

    def no_sync(self):
        return _Apart(self) if self.ranks.world_size > 1 else nullcontext()

    def combine_gradients(self, *, late):
        if self._is_apart:
            return
        trained = [one for one in self._module.parameters() if one.grad is not None]
        for _ in range(self.options.get("rounds", 1) if trained else 0):
            flat = self.collectives.all_reduce(torch.cat([one.grad.reshape(-1) for one in trained]), "mean")
            for one, part in zip(trained, flat.split([one.numel() for one in trained]), strict=True):
                one.grad.copy_(part.view_as(one))

    def clip_gradients(self, optimizer, clip_val, algorithm):
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        if algorithm == "norm":
            torch.nn.utils.clip_grad_norm_(parameters, clip_val)
        else:
            torch.nn.utils.clip_grad_value_(parameters, clip_val)

    def check_gradients(self):
        pass

    def reduces_in(self, module):
        return tuple({one.dtype: None for one in module.parameters()})

    def model_state(self, module):
        return module.state_dict()

    def load_model_state(self, module, state):
        module.load_state_dict(state, strict=getattr(module, "strict_loading", True))

    def optimizer_state(self, optimizer):
        return optimizer.state_dict()

    def load_optimizer_state(self, optimizer, state):
        optimizer.load_state_dict(dict(state))


class _Apart:
    """While gradients are added up they stay each rank's own."""

    def __init__(self, strategy):
        self._strategy = strategy

    def __enter__(self):
        self._strategy._is_apart = True

    def __exit__(self, *_):
        self._strategy._is_apart = False
