"""Measures beside the kernel's own accounting."""
