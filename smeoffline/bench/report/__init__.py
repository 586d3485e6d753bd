"""From a results file to `report.md`, `report.json` and figures."""
