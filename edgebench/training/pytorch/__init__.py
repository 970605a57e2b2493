"""Training in PyTorch."""
