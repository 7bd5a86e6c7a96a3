"""What only the stage conditions has in commands and pages."""
