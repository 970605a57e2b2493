"""Reports of a sweep (sentences, tables, figures in one file) and its figures."""
