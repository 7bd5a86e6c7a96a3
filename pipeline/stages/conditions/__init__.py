"""The stage of conditional authorization: authorizers that answer with conditions on the object.

No released server has it. The rules are those of KEP-5681 as far as kubernetes/apiserver has them. Those of its draft for reads are
added: a list or a watch is allowed if every object that its selectors can select is allowed.
"""
