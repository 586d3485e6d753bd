"""An audit of a dataset as a page."""
