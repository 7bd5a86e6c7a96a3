"""Replays recorded writes of custom resources under other definitions.

event -> sent.py (what the client asked for) --+
definitions -> served.py ----------------------+-> predicting.py -> an answer -> judging.py -> a verdict
versions -> stored.py (what the write met) ----+
"""
