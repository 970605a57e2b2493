"""A device's constants measured: scans planned, run as trials, and put together."""
