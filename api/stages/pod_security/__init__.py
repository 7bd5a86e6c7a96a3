"""What only the stage pod security has in commands and pages."""
