"""Two sweeps held against each other."""
