"""Datasets on disk: Minari's layout, written whole or not at all and read checked."""
