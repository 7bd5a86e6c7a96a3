"""The SQL of evidence about schemas."""

from queries.statements import statements_of

statement = statements_of(__name__)
