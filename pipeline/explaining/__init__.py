"""What every explanation of a verdict consists of: the inputs, what decided, and what is missing. Stages fill it."""
