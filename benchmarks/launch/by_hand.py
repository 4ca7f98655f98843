"""A script for torchrun, without a library."""

import torch
from task import arrived, loader, model

if __name__ == "__main__":
    torch.distributed.init_process_group("gloo")
    net = torch.nn.parallel.DistributedDataParallel(model())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x, y = next(iter(loader()))
    arrived()
    (net(x) - y).square().mean().backward()
    optimizer.step()
    torch.distributed.destroy_process_group()
