"""Facts of the precisions that ship; one file each."""
