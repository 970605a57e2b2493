"""From frames to answers: layer costs, reconciliation, comparison, studies."""
