"""Slowdown against limit: curves, two formulas of seconds, answers and where they are from."""
