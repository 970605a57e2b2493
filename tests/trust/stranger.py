"""Another user, whom no database knows."""

from __future__ import annotations

STRANGER = 12345
