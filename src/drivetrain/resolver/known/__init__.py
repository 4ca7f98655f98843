"""What ships with the library, as facts: one file a thing, found by being there.

Each module of a folder holds ``FACTS``, a tuple. Adding an accelerator, strategy, precision,
launcher or environment is adding a file here (and its run-time file), or installing a package
with an entry point; no list is edited.
"""
