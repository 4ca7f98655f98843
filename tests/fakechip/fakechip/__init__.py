"""Hardware that computes on the processor, a data-parallel strategy, and a coarse number format."""
