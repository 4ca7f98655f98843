"""Facts of the strategies that ship; one file each."""
