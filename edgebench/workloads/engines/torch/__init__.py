"""PyTorch as an engine."""
