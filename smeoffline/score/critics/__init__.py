"""Critics beside the truth."""
