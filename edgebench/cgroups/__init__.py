"""Control groups: where one may be made, its limits, its accounting, swap, the sampler."""
