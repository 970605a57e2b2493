"""How right the models are: predictions of limits, networks, families and settings left out."""
