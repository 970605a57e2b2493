"""A device's memory and disk constants, measured by synthetic scans."""
