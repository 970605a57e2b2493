"""The time of each layer, and the extra time that a memory limit adds to it."""
