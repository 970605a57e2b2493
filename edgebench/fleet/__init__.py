"""Several machines, reached by SSH: a sweep on each of them."""
