"""Engines: what loads a network and executes it inside the limit, one module each."""
