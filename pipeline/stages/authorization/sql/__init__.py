"""The SQL of the authorization stage; see queries/statements.py."""

from queries.statements import statements_of

statement = statements_of(__name__)
