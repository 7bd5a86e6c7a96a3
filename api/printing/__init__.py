"""The output of commands: tables, layouts, reports and the files that they go to."""
