"""What bench_loop.py measures: the same tasks, trained by each library as its users would."""
