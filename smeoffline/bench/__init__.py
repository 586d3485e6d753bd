"""From suites to tables: the grid of training runs, how it is run, its results, reports, leaderboard."""
