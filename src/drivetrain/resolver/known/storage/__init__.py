"""Facts of the storage that ship; one file each."""
