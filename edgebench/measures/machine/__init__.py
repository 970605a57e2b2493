"""The machine around the trials: what may explain a difference between two sweeps."""
