"""What a device's memory and disks cost, measured by synthetic scans and never by networks."""
