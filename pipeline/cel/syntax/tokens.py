"""The tokens that cel-go's lexer finds in a text: always the longest one, and of equally long ones the first in order.

Text that does not become a token is reported up to the character that rules out every token (antlr4 LexerATNSimulator). The search
for the next token continues after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from antlr4.Token import CommonToken, Token

from .error_grammar import BLANK, END, FIXED_TOKENS, begun, named_tokens

_BLANK_TYPE = -2


class Vocabulary:
    """The tokens of one version of the grammar, numbered in the order of the messages."""

    def __init__(self, escaped_selectors: bool) -> None:
        named = named_tokens(escaped_selectors)
        names = [*FIXED_TOKENS, *named]
        self.types = {name: number for number, name in enumerate(names, Token.MIN_USER_TOKEN_TYPE)} | {END: Token.EOF}
        # As ANTLR shows them: number 0 is not used, and each token has one of the two names.
        self.literals = ["<INVALID>", *(f"'{text}'" for text in FIXED_TOKENS)]
        self.symbols = ["<INVALID>"] * (len(FIXED_TOKENS) + 1) + list(named)
        fixed = {self.types[text]: re.compile(re.escape(text)) for text in FIXED_TOKENS}
        self.patterns = fixed | {self.types[name]: re.compile(pattern) for name, pattern in named.items()}
        self.patterns[_BLANK_TYPE] = re.compile(BLANK)
        self.begun = re.compile(f"(?:{begun(escaped_selectors)})?")


class TokenSource:
    """Returns the tokens of `text` one by one, as ANTLR's streams request them. Calls `report` with a place and a message."""

    def __init__(self, text: str, vocabulary: Vocabulary, report: Callable[[int, str], None]) -> None:
        self._text = text
        self._vocabulary = vocabulary
        self._report = report
        self._at = 0

    def nextToken(self) -> CommonToken:  # noqa: N802
        """The next token; at the end of the text, the last token again for each call."""
        while (start := self._at) < len(self._text):
            kind, stop = self._longest(start)
            if stop > start:
                self._at = stop
                return _token(kind, self._text[start:stop], start)
            self._at = min(self._begun_until(start) + 1, len(self._text))
            self._report(start, f"token recognition error at: '{self._text[start : self._at]}'")
        return _token(Token.EOF, END, len(self._text))

    def _longest(self, start: int) -> tuple[int, int]:
        """The number of the token at `start` and its end; the end is `start` if there is no token."""
        best, stop = Token.INVALID_TYPE, start
        for kind, pattern in self._vocabulary.patterns.items():
            found = pattern.match(self._text, start)
            if found and found.end() > stop:
                best, stop = kind, found.end()
        return best, stop

    def _begun_until(self, start: int) -> int:
        found = self._vocabulary.begun.match(self._text, start)
        return found.end() if found else start


def _token(kind: int, text: str, start: int) -> CommonToken:
    channel = Token.HIDDEN_CHANNEL if kind == _BLANK_TYPE else Token.DEFAULT_CHANNEL
    token = CommonToken(type=kind, channel=channel, start=start, stop=start + len(text) - 1)
    token.text = text
    return token
