"""Figures of results; one module per kind of figure."""
