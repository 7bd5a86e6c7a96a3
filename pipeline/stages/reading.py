"""What a stage says of given manifests, and of those that the log shows: errors, warnings, and versions before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Generic, TypeVar

from queries import LakeReader

from ..manifests.documents import Document
from ..request import Object
from ..runs.window import Window
from .as_of import AsOf

RulesT = TypeVar("RulesT")


class StageReading(Generic[RulesT]):
    """The answers of a stage to the questions of who reads manifests. See StageReadiness."""

    def lacks(self, rules: RulesT) -> str:
        """What manifests of this stage need at least and these do not have, as a kind; empty where nothing lacks."""
        return ""

    def refused(self, rules: RulesT, version: tuple[int, int], lake: Path | None) -> Sequence[tuple[str, str]]:
        """Where expressions stand that make an API server of this minor version refuse the write of these manifests, and why.

        Expressions that a cluster of the lake has stored already are taken. May also raise InputError for such manifests.
        """
        return self.uncompilable(rules, version)

    def unusable(self, rules: RulesT, version: tuple[int, int]) -> Sequence[tuple[str, str]]:
        """The same of manifests that a server has stored, such as the version before: only what no server of that version takes."""
        return ()

    def uncompilable(self, rules: RulesT, version: tuple[int, int]) -> Sequence[tuple[str, str]]:
        """Where expressions stand that do not compile, and why: an API server of this minor version rejects these manifests.

        Those that `read` rejects are not among them. May also raise InputError for such manifests.
        """
        return ()

    def hints(self, rules: RulesT) -> Sequence[str]:
        """What in the manifests may not do what their writer wants, though it does what it says. It changes no verdict."""
        return ()

    def remarks(self, rules: RulesT, version: tuple[int, int]) -> Sequence[str]:
        """What a server of this minor version makes of the manifests that a user may not expect, as sentences."""
        return ()

    def over(self, rules: RulesT, before: RulesT) -> RulesT:
        """The rules of a version, where the version before is known: what only that one names is gone, for example.

        Stages that judge by the given manifests alone need nothing of this.
        """
        return rules

    def with_recorded(self, reader: LakeReader, cluster: str, moment: datetime, rules: RulesT | None) -> RulesT | None:
        """The rules that the log shows of a cluster at a moment, under given ones, if any, which take what they lack from the log.

        None if the stage takes the manifests of `recorded` in place of that. Raises EvidenceError where they are not known.
        """
        return None

    def as_of(self, reader: LakeReader, cluster: str, moment: datetime, rules: RulesT, replaces_all: bool) -> RulesT | None:
        """The rules that the log shows of a cluster at a moment, as a version before `rules`; None if it cannot show them.

        They are of the same objects as `rules`, or with `replaces_all` of all. Raises EvidenceError where they are not known.
        """
        return None

    def recorded(self, reader: LakeReader, cluster: str, moment: datetime) -> AsOf[Document] | None:
        """The manifests that the log shows in force at a moment; None if a replay of them needs more than manifests."""
        return None

    def mistakes(self, rules: RulesT, replaces_all: bool) -> Sequence[str]:
        """Sentences about manifests that the server accepts and that do not do what they seem to do."""
        return ()

    def in_fleets(
        self, reader: LakeReader, cluster: str, documents: Sequence[Document], window: Window, moment: datetime
    ) -> Mapping[str, str]:
        """What a cluster has recorded at a moment of the kinds of this stage, and of what given manifests use: names and digests.

        A name is `KIND NAME`, as in `policy limit`.
        """
        return {}

    def unpaired(self, rules: RulesT, before: RulesT) -> Sequence[str]:
        """Sentences on what only one of two versions has, where versions are paired by name."""
        return ()

    def kept(self, rules: RulesT | None) -> Sequence[Object] | None:
        """The manifests that are kept next to a run, so that a later report reads them; None: the given ones of the stage.

        Without rules, the run took them from the log.
        """
        return None
