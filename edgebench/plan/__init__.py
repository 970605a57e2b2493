"""From a scenario to its points, and in which order they are tried."""
