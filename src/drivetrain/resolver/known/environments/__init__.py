"""Facts of the environments that ship; one file each."""
