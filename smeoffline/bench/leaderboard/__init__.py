"""The leaderboard: entries are actions at fixed probes, scored against the known optimum, and never believed."""
