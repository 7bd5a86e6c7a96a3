"""What only the stage webhooks has in commands and pages."""
