"""Facts of the launchers that ship; one file each."""
