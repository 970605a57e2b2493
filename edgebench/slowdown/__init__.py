"""Slowdown against limit: the data, a ladder of models fitted to it, and their errors."""
