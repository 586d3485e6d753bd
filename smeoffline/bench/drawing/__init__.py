"""How figures look, and the kinds of figure: drawn from plain data, nothing is computed here."""
