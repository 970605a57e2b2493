"""The dashboard: a small web server beside the harness, never inside what is measured."""
