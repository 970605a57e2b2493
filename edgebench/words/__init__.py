"""Every sentence about a result, made from facts; a module for each question."""
