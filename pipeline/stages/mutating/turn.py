"""One round of mutating policies over one request.

Follows dispatchInvocations of kubernetes/apiserver pkg/admission/plugin/policy/mutating/dispatcher.go. All matches are found before
the first mutation of the round. Conditions are evaluated later, on the object as mutated so far.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...matching import Conversion
from ...policies.conversions import convert
from ...policies.due import Due, Prepared
from ...policies.evaluate import Case, match_conditions
from ...policies.inputs import Inputs, NamespaceNotFoundError
from ...policies.model import FailurePolicy
from ...policies.verdict import Decision, PolicyVerdict
from ...request import AdmissionRequest, Evidence, Grade, GroupVersionKind, Known, Object, Unknown
from .applying import Applied, Failed, Patch, Refusal, Undecided, mutate
from .compiled import CompiledMutating
from .invocation import Invocation, Key, Noticed, Ran
from .kinds import KnownKind
from .model import ReinvocationPolicy
from .nil_lists import as_seen, has_nil

if TYPE_CHECKING:
    from .chain import Run


class Turn:
    """One round."""

    def __init__(self, run: Run, request: AdmissionRequest, number: int) -> None:
        self._run = run
        self._request = request
        self._number = number
        self._inputs = Inputs(request, run.seen, run.authorize, managed_fields=run.chain.set.reads_managed_fields, is_mutating=True)
        self._due: list[Due] = []
        # Each matched kind has a copy of its own, and only the copy of the last one becomes the object.
        self._copies: dict[GroupVersionKind | None, Evidence[Object | None]] = {None: request.object}
        self._changed: set[GroupVersionKind | None] = set()
        self._last: GroupVersionKind | None = None
        self._has_run = False
        self._errors: list[tuple[str, str]] = []  # of policies with failurePolicy Fail: the reason and the text

    def meet(self, prepared: Prepared) -> None:
        """Take the matches of one policy; its configuration errors come before every error of an evaluation."""
        for item in prepared:
            if isinstance(item, Due):
                self._due.append(item)
                continue
            key = (item.policy, item.binding, item.param_namespace, item.param_name)
            if item.decision is Decision.ERROR:
                self._configuration_error(key, item)
            else:
                ran = Ran.UNKNOWN if item.decision is Decision.UNKNOWN else Ran.NOMATCH
                self._note(key, ran, item.why, due=False)
                if ran is Ran.UNKNOWN:
                    self._lose(f"whether policy {item.policy} matches: {item.why}")

    def _configuration_error(self, key: Key, row: PolicyVerdict) -> None:
        policy, binding = key[:2]
        whose = f"policy '{policy}' with binding '{binding}'" if binding is not None else f'policy "{policy}"'
        text = f"{whose} denied request: {row.message}"
        fails = row.effect is Decision.DENY
        self._note(key, Ran.ERROR, "configuration", (text,), failure_policy=FailurePolicy.FAIL if fails else FailurePolicy.IGNORE)
        if fails:
            self._errors.append(("Forbidden", text))

    def run(self) -> None:
        """Run the due policies, then turn errors into a refusal."""
        run = self._run
        place = {key: number for number, key in enumerate(run.order)}
        try:
            if self._due:
                self._inputs.namespace()
            for due in sorted(filter(self._is_asked, self._due), key=lambda each: place.get(key_of(each), len(place))):
                if isinstance(refusal := self._invoke(due), Refusal):
                    run.refusal = refusal
                    return
        except NamespaceNotFoundError as problem:
            run.refusal = Refusal(404, "NotFound", str(problem))
            return
        if self._has_run and self._last in self._changed:
            run.is_dirty = True
            run.call_again()
            run.object = self._as_requested(self._copies[self._last])
        if self._errors:
            texts = tuple(text for _, text in self._errors)
            run.refusal = Refusal(403, self._errors[0][0], texts[0], texts)

    def _is_asked(self, due: Due) -> bool:
        return self._run.only is None or key_of(due) in self._run.only

    def _invoke(self, due: Due) -> Refusal | None:
        policy = due.policy
        assert isinstance(policy, CompiledMutating)
        key = key_of(due)
        copy = self._copy_of(due)
        current = self._copies[copy]
        case = self._case(due, current)
        self._run.note(Noticed(key, self._number, case))
        found = match_conditions(case) if policy.match_conditions else None
        if policy.defect:
            self._unknown(key, copy, policy.defect)
        elif found is not None and found.whole is not None:
            self._condition(key, copy, due, found.whole.decision, found.whole.message or "", found.whole.why)
        elif self._number == 1 and key not in self._run.due_again:
            self._note(key, Ran.SKIPPED, "not due in the second round")
        elif isinstance(current, Unknown):
            self._has_run, self._last = True, copy
            self._unknown(key, copy, f"the object is not known: {current.reason}")
        else:
            return self._mutate(due, key, copy, current)
        return None

    def _mutate(self, due: Due, key: Key, copy: GroupVersionKind | None, before: Known[Object | None]) -> Refusal | None:
        policy, request = due.policy, self._request
        assert isinstance(policy, CompiledMutating)
        self._has_run, self._last = True, copy
        if before.value is None:
            self._note(key, Ran.NOMATCH, "there is no object")
            return None
        named = copy or (request.kind.value if isinstance(request.kind, Known) else None)
        kind = Unknown("the kind is not known") if named is None else self._run.chain.kinds.of(request, named, self._run.seen)
        if isinstance(kind, Unknown):
            self._unknown(key, copy, kind.reason)
            return None
        current, errors, patches = before.value, list[str](), list[Patch]()
        for index, mutation in enumerate(policy.mutations):
            case = self._case(due, replace(before, value=current))
            result = mutate(case, mutation, current, kind, request)
            self._run.note(Noticed(key, self._number, case, index, current, result))
            match result:
                case Refusal():
                    self._note(key, Ran.ERROR, "not covered by failurePolicy", (result.message or "",), before.value)
                    return result
                case Undecided(why):
                    self._unknown(key, copy, why)
                    return None
                case Failed(message):
                    errors.append(message)
                case Applied(changed, patch):
                    current = changed
                    patches.append(patch)
                    self._run.has_nil = self._run.has_nil or has_nil(patch)
        self._copies[copy] = replace(before, value=current)
        if patches:
            self._changed.add(copy)
        if current != before.value:
            self._run.call_again()
        if policy.mutating.reinvocation is ReinvocationPolicy.IF_NEEDED:
            self._run.previous.add(key)
        settled = current == before.value or not self._run.settles or self._is_settled(due, kind, current)
        found = self._finish(due, key, before.value, current, errors, settled)
        self._run.invocations.append(replace(found, patches=tuple(patches), is_converted=copy is not None))
        return None

    def _finish(self, due: Due, key: Key, before: Object, after: Object, errors: list[str], settled: bool) -> Invocation:
        policy, binding = key[:2]
        whose = f"policy '{policy}' with binding '{binding}'" if binding is not None else f'policy "{policy}"'
        texts = tuple(f"{whose} denied request: {each}" for each in errors)
        failure_policy = due.policy.policy.failure_policy
        if failure_policy is FailurePolicy.FAIL:
            self._errors += [("Invalid", each) for each in texts]
        ran = Ran.ERROR if texts else Ran.APPLIED
        return Invocation(key, self._number, ran, "", texts, before, after, failure_policy, due.floor, settled)

    def _is_settled(self, due: Due, kind: KnownKind, changed: Object) -> bool:
        """Whether the policy leaves its own result as it is."""
        policy = due.policy
        assert isinstance(policy, CompiledMutating)
        current = changed
        for mutation in policy.mutations:
            own = self._request.object
            source = own.source if isinstance(own, Known) and own.is_redacted else "its own result"
            case = self._case(due, Known(current, source))
            if policy.match_conditions and match_conditions(case) is not None:
                return True
            result = mutate(case, mutation, current, kind, self._request)
            current = result.object if isinstance(result, Applied) else current
        return current == changed

    def _condition(self, key: Key, copy: GroupVersionKind | None, due: Due, decision: Decision, message: str, why: str) -> None:
        if decision is Decision.UNKNOWN:
            self._has_run, self._last = True, copy
            self._unknown(key, copy, why)
        elif decision is Decision.ERROR:
            policy, binding = key[:2]
            whose = f"policy '{policy}' with binding '{binding}'" if binding is not None else f'policy "{policy}"'
            text = f"{whose} denied request: {message}"
            self._note(key, Ran.ERROR, why, (text,), failure_policy=due.policy.policy.failure_policy)
            self._errors.append(("Invalid", text))
        else:
            self._note(key, Ran.NOMATCH, why)

    def _case(self, due: Due, current: Evidence[Object | None]) -> Case:
        if self._run.has_nil and isinstance(current, Known):
            current = replace(current, value=as_seen(current.value))
        inputs = self._inputs.of(replace(self._request, object=current))
        return Case(due.policy, inputs, due.match, due.value)

    def _copy_of(self, due: Due) -> GroupVersionKind | None:
        """The kind of the copy that a policy sees; None for that of the request."""
        match = due.match
        if match is None or match.conversion is Conversion.NONE or not isinstance(match.matched_kind, Known):
            return None
        kind = match.matched_kind.value
        if kind not in self._copies:
            own = self._request.object
            value = own.value if isinstance(own, Known) else None
            if value is not None and match.conversion is not Conversion.RENAMED:
                own = Unknown(f"its conversion to {kind.group}/{kind.version}")
            elif value is not None and isinstance(own, Known):
                own = replace(own, value=convert("object", value, kind, match.conversion))
            self._copies[kind] = own
        return kind

    def _as_requested(self, found: Evidence[Object | None]) -> Evidence[Object | None]:
        if not isinstance(found, Known) or found.value is None or not isinstance(self._request.object, Known):
            return found
        original = self._request.object.value or {}
        return replace(found, value={**found.value, "apiVersion": original.get("apiVersion", found.value.get("apiVersion"))})

    def _unknown(self, key: Key, copy: GroupVersionKind | None, why: str) -> None:
        self._note(key, Ran.UNKNOWN, why)
        self._copies[copy] = Unknown(f"what policy {key[0]} made of it: {why}")
        self._changed.add(copy)

    def _lose(self, why: str) -> None:
        for copy in self._copies:
            self._copies[copy] = Unknown(why)
        self._changed.add(None)
        self._has_run = True

    def _note(
        self,
        key: Key,
        ran: Ran,
        why: str,
        errors: tuple[str, ...] = (),
        before: Object | None = None,
        after: Object | None = None,
        failure_policy: FailurePolicy = FailurePolicy.FAIL,
        evidence: Grade = Grade.EXACT,
        settled: bool = True,
        due: bool = True,
    ) -> None:
        found = Invocation(key, self._number, ran, why, errors, before, after, failure_policy, evidence, settled, due)
        self._run.invocations.append(found)


def key_of(due: Due) -> Key:
    """The policy, binding and param of a due evaluation."""
    return (*due.subject.names, due.param.namespace, due.param.name)
