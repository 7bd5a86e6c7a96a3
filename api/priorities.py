"""Who gives way to whom on a machine that is busy: nice values, each added to that of the process that starts this one.

Acknowledging comes first and is not niced. Storing comes next: the views show only what is stored, and a starved drain falls behind
without end. Questions take what is left, because one question can use every core. At a difference of seven, the drain gets nearly
five times the processor time of one thread that answers (sched(7)). On an idle machine these values cost no process anything.
"""

DRAIN = 3
QUERY = 10
REPLAY = 5  # its parent answers questions
