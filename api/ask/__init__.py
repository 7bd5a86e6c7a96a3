"""Questions to a lake over HTTP: typed reads, pages of rows, and answers that are kept."""
