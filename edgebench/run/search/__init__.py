"""The search for the limit to give."""
