"""What only the stage schema has in commands and pages."""
