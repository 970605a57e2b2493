"""What executes: sweeps, trials, the session around them, searches, calibration, checks."""
