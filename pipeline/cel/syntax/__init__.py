"""From the text of an expression to its syntax tree, with cel-go's error messages."""
