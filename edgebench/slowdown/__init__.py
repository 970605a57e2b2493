"""Slowdown against limit: data, fits and their errors."""
