"""A sweep told to others: what it means in sentences, tables and figures, in one file."""
