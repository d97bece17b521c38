"""The pattern driver: a worklist over operations, dispatched by the type of a pattern's root.

The driver, not the pattern, keeps provenance: each operation that a pattern creates gets the union of the matched
operations' origins and the pattern's name.  A pattern that never stops is reported by name, with the op it fires on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, StringAttr, i64
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ..dialects import onnx
from ..runtime.errors import CompilerBug, Error

ORIGIN = "origin"
PATTERN = "pattern"


def origins_of(op: Operation) -> tuple[int, ...]:
    """The node ids that this operation comes from."""
    origin = op.attributes.get(ORIGIN)
    return tuple(int(i) for i in origin.get_values()) if isinstance(origin, DenseArrayBase) else ()


def set_origins(op: Operation, ids: Iterable[int]) -> None:
    """Sets the node ids that this operation comes from, sorted."""
    op.attributes[ORIGIN] = DenseArrayBase.from_list(i64, sorted(set(ids)))


class Pattern:
    """One rewrite: the docstring's first line is its algebra.

    `root` is the class (or classes) that the driver dispatches on.  `rewrite` looks at the op and either returns
    without touching anything (declines), or builds, replaces and erases through the rewriter.  Patterns hold no state.
    """

    root: ClassVar[type[Operation] | tuple[type[Operation], ...]]

    def rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        raise NotImplementedError(type(self).__name__)

    @staticmethod
    def takes(op: Operation, /) -> bool:
        """Whether `rewrite` is asked about this op at all; patterns that share this function get one answer."""
        return True

    @classmethod
    def title(cls) -> str:
        """The pattern's name in logs and provenance."""
        return cls.__name__


@dataclass
class PatternRewriter:
    """What a pattern may do to the IR around its root."""

    root: Operation
    created: list[Operation] = field(default_factory=list[Operation])
    erased: list[Operation] = field(default_factory=list[Operation])
    touched: list[Operation] = field(default_factory=list[Operation])
    origins: set[int] = field(default_factory=set[int])
    opsets: Mapping[str, int] | None = None
    """The opsets that the module has to keep to, by domain; None where any operator may be made."""
    declined: str | None = None
    """Why the pattern made nothing though it matched."""

    def may_make(self, *classes: type[onnx.OnnxOp], since: int = 0) -> bool:
        """Whether the model's opset has these operators; where it does not, the pattern declines, and the log says so.

        `since` is the opset of the form that is needed, where an older one of the same name means something else.  To
        be asked last of all, when everything else matches.
        """
        for schema in (cls.SCHEMA for cls in classes) if self.opsets is not None else ():
            assert self.opsets is not None
            version, first = self.opsets.get(schema.domain), max(schema.first, since)
            if version is None or version < first:
                has = f"opset {version}" if version is not None else "none"
                domain, form = schema.domain or "ai.onnx", "" if first == schema.first else " in this form"
                self.declined = f"{schema.op_type} is new{form} in opset {first} of '{domain}', the model has {has}"
                return False
        return True

    def insert(self, op: Operation, before: Operation | None = None) -> Operation:
        """Inserts a new op before the root, or before the op given, and returns it."""
        Rewriter.insert_op(op, InsertPoint.before(before or self.root))
        self.created.append(op)
        return op

    def replace_value(self, old: SSAValue, new: SSAValue) -> None:
        """Every use of `old` becomes a use of `new`."""
        if old is new:
            return
        self.touched.extend(use.operation for use in old.uses)
        if new.name_hint is None:
            new.name_hint = old.name_hint
        if isinstance(new, OpResult) and (name := onnx.value_name(old)) and not onnx.value_name(new):
            onnx.set_value_name(new, name)  # it is the same value, so whoever compares levels finds it
        old.replace_all_uses_with(new)

    def replace(self, op: Operation, new: Operation | Sequence[SSAValue | None]) -> None:
        """Puts a new op, or values that exist, in place of an op's results and erases it.

        A None among the values says that the result has no use.
        """
        if isinstance(new, Operation):
            if new.parent is None:
                self.insert(new, before=op)
            values: Sequence[SSAValue | None] = new.results
        else:
            values = new
        for old, value in zip(op.results, values, strict=True):
            if value is not None:
                self.replace_value(old, value)
        self.erase(op)

    def erase(self, op: Operation) -> None:
        """Erases an op whose results have no use; its operands' producers are looked at again."""
        self.origins.update(origins_of(op))
        for operand in op.operands:
            if isinstance(owner := operand.owner, Operation):
                self.touched.append(owner)
        self.erased.extend(op.walk())
        Rewriter.erase_op(op)

    def set_attribute(self, op: Operation, name: str, value: Attribute) -> None:
        """Changes an op in place."""
        op.properties[name] = value
        self.touched.append(op)

    @property
    def changed(self) -> bool:
        return bool(self.created or self.erased or self.touched)


@dataclass(frozen=True)
class Firing:
    """One application of a pattern: its name, the root's name, and the node ids of what it matched."""

    pattern: str
    op: str
    origins: tuple[int, ...]


@dataclass(frozen=True)
class Declined:
    """A pattern that matched and was not applied: its name, the root's name, the root's node ids, and why."""

    pattern: str
    op: str
    origins: tuple[int, ...]
    reason: str


class PatternFailed(Exception):
    """A pattern raised an exception: its name, the op that it was applied to, and the exception."""

    def __init__(self, pattern: str, op: Operation, error: Exception) -> None:
        super().__init__(f"pattern {pattern} raised {type(error).__name__} on {onnx.describe(op)}: {error}")


def apply_patterns(
    module: ModuleOp | Block,
    patterns: Sequence[Pattern],
    *,
    max_rewrites_per_op: int = 16,
    opsets: Mapping[str, int] | None = None,
    declined: dict[Declined, None] | None = None,
) -> list[Firing]:
    """Runs the patterns to a fixpoint and tells what fired, in order.

    `opsets`, by domain, are those that the module has to keep to; without them any operator may be made.  What
    patterns declined for that is put into `declined`.

    Raises CompilerBug naming pattern and op when the number of rewrites passes `max_rewrites_per_op` times the number
    of ops that there were at the start (plus 1000): some pattern undoes another's work.
    """
    table: dict[type[Operation], list[Pattern]] = {}
    for pattern in patterns:
        for root in pattern.root if isinstance(pattern.root, tuple) else (pattern.root,):
            table.setdefault(root, []).append(pattern)
    worklist = [op for op in module.walk() if type(op) in table]
    limit = max_rewrites_per_op * len(worklist) + 1000
    worklist.reverse()
    queued = set(worklist)
    firings: list[Firing] = []
    gone: set[Operation] = set()

    def push(op: Operation) -> None:
        if op not in queued and op not in gone and type(op) in table and op.parent is not None:
            queued.add(op)
            worklist.append(op)

    while worklist:
        op = worklist.pop()
        queued.discard(op)
        if op in gone or op.parent is None:
            continue
        answers: dict[Callable[[Operation], bool], bool] = {}
        for pattern in table[type(op)]:
            takes = pattern.takes
            if takes not in answers:
                answers[takes] = takes(op)
            if not answers[takes]:
                continue
            rewriter = PatternRewriter(op, opsets=opsets)
            try:
                pattern.rewrite(op, rewriter)
            except Error:
                raise
            except Exception as e:
                raise PatternFailed(pattern.title(), op, e) from e
            if not rewriter.changed:
                if rewriter.declined is not None and declined is not None:
                    declined[Declined(pattern.title(), op.name, origins_of(op), rewriter.declined)] = None
                continue
            answers.clear()
            rewriter.origins.update(origins_of(op))
            gone.update(rewriter.erased)
            name = pattern.title()
            firings.append(Firing(name, op.name, tuple(sorted(rewriter.origins))))
            if len(firings) > limit:
                raise CompilerBug(f"pattern {name} does not stop: {limit} rewrites, the last on {op.name}")
            for made in rewriter.created:
                if ORIGIN not in made.attributes:
                    set_origins(made, rewriter.origins)
                made.attributes.setdefault(PATTERN, StringAttr(name))
            for made in reversed(rewriter.created):
                push(made)
                for result in made.results:
                    for use in result.uses:
                        push(use.operation)
            for near in rewriter.touched:
                push(near)
            if op in gone:
                break
    return firings
