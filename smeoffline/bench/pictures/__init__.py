"""Pictures of a task, of behaviors, of a dataset and of a run: what `sme-offline plot` draws."""
