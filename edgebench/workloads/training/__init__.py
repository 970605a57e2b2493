"""Training under a limit, and the micro-benchmarks beside it: what runs inside the trial."""
