"""ONNX Runtime as an engine."""
