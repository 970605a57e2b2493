"""Slowdown against limit: curves, models, the simulator, calibration constants, evaluation."""
