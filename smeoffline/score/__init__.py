"""From a policy to numbers: scores against the known optimum, values, and statistics over seeds."""
