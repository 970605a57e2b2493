"""Several machines, reached by SSH: a sweep on each of them, or one that equal ones share."""
