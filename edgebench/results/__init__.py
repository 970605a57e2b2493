"""The results folder: its files, written safely, and read back as frames."""
