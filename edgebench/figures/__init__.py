"""Figures, drawn from results frames."""
