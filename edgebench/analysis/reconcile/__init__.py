"""The figures of all strategies of one point, and the ledgers that explain their differences."""
