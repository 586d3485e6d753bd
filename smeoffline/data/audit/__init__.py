"""Whether a dataset is what it says, and what it is like."""
