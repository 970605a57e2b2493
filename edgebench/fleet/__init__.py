"""Several machines: sweeps on each of them, or one sweep's trials shared, by Dask distributed."""
