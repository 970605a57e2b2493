"""Walks: trials whose limit moves while they live."""
