"""Facts of the accelerators that ship; one file each."""
