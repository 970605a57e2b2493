"""Questions that trials answer one after the other: least limits, largest batches."""
