"""The trials of a scenario, and what is kept of them."""
