"""Every measured number of README and docs, recomputed; ``benchmarks/headlines.py`` is the program."""
