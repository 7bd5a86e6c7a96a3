"""What only the stage authorization has in commands and pages."""
