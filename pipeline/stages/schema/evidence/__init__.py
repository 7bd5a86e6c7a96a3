"""What the log shows of fields that a schema does not know: who sent them, and which stored objects still carry them.

definitions.py (the schema) -> recorded.py (requests and snapshots) -> sent.py (what one request sent)
                                                                   -> stored.py (what each object carries)
                                                                   -> fields.py, dormant.py (the answers)
"""
