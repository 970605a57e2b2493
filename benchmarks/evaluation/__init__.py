"""How right the models are about limits, networks and families that were left out."""
