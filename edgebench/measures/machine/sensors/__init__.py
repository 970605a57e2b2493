"""The machine's own sensors: power, temperature, clocks, causes of throttling, fans."""
