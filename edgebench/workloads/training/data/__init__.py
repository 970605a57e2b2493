"""Data sets by name, read from disk or made from a seed. Nothing is fetched unless asked for."""
