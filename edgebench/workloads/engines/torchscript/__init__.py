"""TorchScript as an engine."""
