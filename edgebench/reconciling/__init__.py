"""All strategies of one point side by side, and the ledgers from each to the next."""
