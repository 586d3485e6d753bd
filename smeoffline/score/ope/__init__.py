"""Off-policy evaluation beside the truth."""
