"""The stages of the API server's request pipeline, one folder each. See stage.py, and docs/stages.md for how to add one."""
