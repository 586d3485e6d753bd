"""From a behavior to a dataset: recipes, rollouts, the store, and the audit of what is stored."""
