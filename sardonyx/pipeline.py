"""The compiler as one table: its levels, the steps that reach each, and what may be left when it is reached.

The runner yields after each step, so that printing, timing and dumping are a caller's loop and no flags inside passes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, TensorType, UnitAttr, UnrankedTensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation

from .branches import branch_question, branches_of, fix_branch, fix_position, picks_of, position_question
from .build import (
    constant_operands,
    name_of,
    not_lowered,
    prepack,
    refuses,
    scratch_text,
    signature,
    symbol_of,
    to_llvm,
    to_loops,
)
from .collection import without_collection
from .dialects import dims, onnx
from .dialects.dims import parse_dims
from .dialects.dims.expression import DimError
from .dialects.onnx.model import declared_ranges, main_of
from .dialects.target import Target, TargetAttr
from .frontend.unsupported import unsupported
from .lowering.choices import Schedule
from .lowering.fast_math import FAST_MATH
from .lowering.kernels.precision import PRECISION, use_precision
from .lowering.schedule import ScratchNeed, schedule
from .lowering.tensor import attach_bodies, lower_to_tensor
from .options import Options
from .questions import RANK_OF_INPUT, question_of
from .reproducers import told, written
from .rewrites.axes_from_data import rewrite_axes_from_data
from .rewrites.branch_ranks import move_into_branches
from .rewrites.compute_sizes import compute_sizes
from .rewrites.constants import normalize_constants
from .rewrites.contrib import EXPANSIONS
from .rewrites.cropped_resize import rewrite_cropped_resize
from .rewrites.driver import ORIGIN, Pattern, PatternFailed, apply_patterns, origins_of
from .rewrites.float_products import rewrite_float_products
from .rewrites.infer import DIAGNOSTICS, infer_shapes
from .rewrites.infer.materialize import told_by
from .rewrites.infer.walk import RANK_FROM_DATA, named_values, set_type
from .rewrites.integer_products import use_integer_products
from .rewrites.learning import rewrite_learning
from .rewrites.outline import outline
from .rewrites.sequence_maps import rewrite_sequence_maps
from .rewrites.simplify import simplify
from .rewrites.simplify.fold import Compute
from .rewrites.simplify.half import widen_half
from .rewrites.simplify.redundancy import eliminate_dead_code
from .rewrites.small_fills import rewrite_small_fills
from .rewrites.texts_in_loops import rewrite_texts_in_loops
from .rewrites.trees import LowerTrees
from .rewrites.upgrade import upgrade_opset
from .rewrites.uses import assumed_symbols
from .runtime.errors import CompilerBug, Error, InputError, ModelError, OpenRankError, UnsupportedError
from .runtime.usage import listed
from .schedules import apply_schedules, tuned_key
from .semantics.custom import CustomOperator, Operators, evaluator_of, meant_operators
from .semantics.facts import Contradiction, Facts
from .semantics.shapes.containers import ANY
from .semantics.weights import WeightStore
from .tools.inspect import symbols


@dataclass
class State:
    """One compilation: the module in whatever level it has reached, and what goes along with it."""

    module: ModuleOp
    weights: WeightStore
    target: Target
    options: Options
    patterns: Sequence[Pattern] = ()
    operators: Operators = field(default_factory=dict[tuple[str, str], CustomOperator])
    """The user's own, by domain and name."""
    facts: Facts = field(default_factory=Facts)
    tuned: Mapping[str, Schedule] = field(default_factory=dict[str, Schedule])
    """Choices that the tuner found, by the kernel's key."""
    contradicted: list[str] = field(default_factory=list[str])
    """A line for each value whose sizes the file declares otherwise than they are."""
    compute: Compute | None = None
    """Evaluates one op on large constants."""
    branches: list[onnx.IfOp] = field(default_factory=list[onnx.IfOp])
    """The Ifs of `main` before the first inference, by the number that answers name."""
    picks: list[onnx.SequenceAtOp] = field(default_factory=list[onnx.SequenceAtOp])
    """What takes tensors of sequences there, likewise."""

    def kernels(self) -> list[FuncOp]:
        """The kernel functions, in module order."""
        return [f for f in self.module.body.block.ops if isinstance(f, FuncOp) and "kernel.key" in f.attributes]


Step = Callable[[State], None]


@dataclass(frozen=True)
class Stage:
    """A level: the steps that reach it, by name, and the dialects that may be left then."""

    level: str
    steps: tuple[tuple[str, Step], ...]
    leaves: frozenset[str]


def _upgrade(state: State) -> None:
    upgrade_opset(state.module, state.weights)


ASSUMED = "assumed at compile time"
DECLARED = "declared by the file"


def _assume(state: State) -> None:
    """States what the caller assumes and the file declares, first in `main`: facts for the prover, and guards."""
    ranges = [f"{low} <= {name}" for name, low, _ in state.options.dims]
    ranges += [f"{name} <= {high}" for name, _, high in state.options.dims]
    block = main_of(state.module).body.block
    given = [part.strip() for text in state.options.assume for part in text.split(" and ")]
    answers = [
        a
        for a in state.options.answers
        if not _fix_rank(block, a)
        and not _fix_size(block, a)
        and not fix_branch(state.module, a)
        and not fix_position(state.module, a)
    ]
    state.branches = branches_of(main_of(state.module))
    state.picks = picks_of(main_of(state.module))
    declared = declared_ranges(main_of(state.module))
    for condition in reversed((*given, *ranges, *answers, *declared)):
        op = dims.AssumeOp(condition, DECLARED if condition in declared else ASSUMED)
        if block.first_op is not None:
            block.insert_op_before(op, block.first_op)
        try:
            state.facts.assume(condition)
        except (DimError, Contradiction) as e:
            option = "dims" if condition in ranges else "assume"
            raise InputError(f"{option}={condition!r}: {e}") from e


def _fix_rank(block: Block, answer: str) -> bool:
    """An answer that tells an input's rank gives it a symbol for each axis; tensors of a sequence may differ there."""
    match = _RANK.fullmatch(answer)
    if match is None:
        return False
    argument, rank = block.args[int(match["index"])], int(match["rank"])
    if isinstance(argument.type, onnx.SequenceType):
        inner = argument.type.element
        assert isinstance(inner, UnrankedTensorType)
        set_type(argument, onnx.SequenceType(dims.tensor_type(inner.element_type, [ANY] * rank)))
        return True
    assert isinstance(argument.type, UnrankedTensorType)
    taken = {name for a in block.args if isinstance(a.type, TensorType) for d in dims.dims_of(a) for name in d.symbols}
    stem = re.sub(r"\W", "_", f"s_{onnx.value_name(argument) or argument.index}", flags=re.ASCII)
    while any(name.startswith(f"{stem}_") for name in taken):
        stem += "_"
    sizes = [dims.Dim.symbol(f"{stem}_{axis}") for axis in range(rank)]
    set_type(argument, dims.tensor_type(argument.type.element_type, sizes))
    return True


_RANK = re.compile(rf"{RANK_OF_INPUT} (?P<index>\d+) == (?P<rank>\d+)")


def _fix_size(block: Block, condition: str) -> bool:
    """An answer that gives a symbol of the inputs a number makes it that in their types, which calls must fit."""
    match = _FIXED.fullmatch(condition.strip())
    if match is None:
        return False
    name, size = match["name"], int(match["size"])
    found = [
        a for a in block.args if isinstance(a.type, TensorType) and any(name in d.symbols for d in dims.dims_of(a))
    ]
    for argument in found:
        assert isinstance(argument.type, TensorType)
        sizes = [d.subs({name: size}) for d in dims.dims_of(argument)]
        set_type(argument, dims.tensor_type(argument.type.element_type, sizes))
    return bool(found)


_FIXED = re.compile(r"(?P<name>[A-Za-z_]\w*) *== *(?P<size>\d+)")


def _check_operators(state: State) -> None:
    """Raises UnsupportedError naming all operators that nobody has, ModelError for inputs of no type."""
    for argument in main_of(state.module).body.block.args:
        if isinstance(argument.type, onnx.UnknownType):
            raise ModelError(f"input {onnx.value_name(argument)!r} has no element type")
    state.operators = meant_operators(state.module, state.operators)

    def known(domain: str, name: str) -> bool:
        if (domain, name) in onnx.OP_BY_NAME:  # an operator of another opset than the model's
            return (domain, name) in state.operators
        return (domain, name) in EXPANSIONS or evaluator_of(domain, name, state.operators) is not None

    missing = unsupported(state.module, known)
    if missing:
        listed = "".join(f"\n  --> {entry}" for entry in missing)
        names = f"{len(missing)} operators are" if len(missing) > 1 else "an operator is"
        raise UnsupportedError(f"{names} not known{listed}\n   = help: give ops=[...]; see docs/add_an_operator.md")


def _infer_model(state: State) -> None:
    """The first inference: what the file declares is held against it, while the values are still the file's.

    An element type that is declared otherwise is an error, as in onnxruntime; sizes are only reported, since exporters
    and rewriters often leave old ones behind.  Raises ModelError.
    """
    _infer(state, declared=True)
    found = state.module.attributes.get(DIAGNOSTICS)
    state.contradicted = [onnx.text_of(line) for line in found] if isinstance(found, ArrayAttr) else []


def _infer(state: State, *, declared: bool = False) -> None:
    normalize_constants(state.module, state.weights)
    while True:
        infer_shapes(
            state.module, state.weights, compile_mode=True, facts=state.facts, operators=state.operators, expand=True,
            declared=declared,
        )  # fmt: skip
        if not move_into_branches(state.module):
            break
    check_assumptions(state)
    refuse_unknown_ranks(state.module, state.branches, state.picks)


def _expand(state: State) -> None:
    """Forms of operators that are written with others."""
    fired = rewrite_axes_from_data(state.module) + rewrite_float_products(state.module)
    fired += rewrite_cropped_resize(state.module) + rewrite_small_fills(state.module, state.weights)
    fired += rewrite_sequence_maps(state.module)
    if fired + rewrite_learning(state.module, state.weights):
        _infer(state)
    while rewrite_texts_in_loops(state.module):  # a loop in a body is found once what is in front of it has types
        _infer(state)


def refuse_unknown_ranks(module: ModuleOp, branches: Sequence[onnx.IfOp], picks: Sequence[onnx.SequenceAtOp]) -> None:
    """Raises UnsupportedError naming the nodes that give a rank which only data or sizes decide, and what tells it.

    Where the inputs of a call tell it, or the condition of an If, the error is an OpenRankError with the question.
    """
    arguments = main_of(module).body.block.args
    found = [f"\n  --> input {onnx.value_name(a)!r}" for a in arguments if isinstance(a.type, UnrankedTensorType)]
    for op in main_of(module).walk():
        if RANK_FROM_DATA not in op.attributes or isinstance(op, FuncOp):
            continue
        tell = " and ".join(repr(text if "=" in text else f"{text} == 2") for text in told_by(op))
        found.append(
            f"\n  --> {onnx.describe(op)}{named_values(op)}" + (f": assume {tell}, or the contrary" if tell else "")
        )
    if found:
        message = f"the rank of a value is known at run time only{''.join(found)}"
        main = main_of(module)
        question = position_question(main, picks) or question_of(main) or branch_question(main, branches)
        raise UnsupportedError(message) if question is None else OpenRankError(message, question)


def check_assumptions(state: State) -> None:
    """Raises InputError for an assumption on a symbol that the model does not have."""
    bound = symbols(main_of(state.module))
    for op in main_of(state.module).body.block.ops:
        if not isinstance(op, dims.AssumeOp) or op.why is None or op.why.data != ASSUMED:
            continue
        if unknown := sorted(assumed_symbols(op) - bound.keys()):
            known = ", ".join(bound) or "none"
            given = f"assume={op.condition.data!r}"
            for name, low, high in state.options.dims:
                if name == unknown[0]:
                    given = f"dims={ ({name: (low, high)}) }"
            raise InputError(f"{given}: the model has no symbol {unknown[0]!r}, but {known}")


def _integer_products(state: State) -> None:
    """Not part of simplification: it must see constants before they are folded, and models stay as they are written."""
    if not state.options.exact:
        use_integer_products(state.module, state.weights)


def _simplify(state: State) -> None:
    simplify(state.module, state.weights, facts=state.facts, exact=state.options.exact, compute=state.compute)


def _widen(state: State) -> None:
    """Not part of simplification, which other tools use: the casts that it needs are no simpler model."""
    if not state.options.exact and widen_half(state.module, state.weights):
        simplify(state.module, state.weights, facts=state.facts, compute=state.compute)


def _user_patterns(state: State) -> None:
    if state.patterns:
        try:
            apply_patterns(state.module, listed("patterns", state.patterns, Pattern, "a rewrite pattern"))
        except PatternFailed as e:
            raise InputError(str(e)) from e.__cause__
        _infer(state)


def _compute_sizes(state: State) -> None:
    drop_stale_guards(main_of(state.module))
    compute_sizes(state.module, state.weights)


def drop_stale_guards(main: FuncOp) -> None:
    """Guards on sizes that nothing has any more: inference, run again with what it had stated, found them otherwise."""
    bound = set(symbols(main))
    for op in main.walk():
        arguments = [a.type for region in op.regions for block in region.blocks for a in block.args]
        bound.update(s for t in arguments if isinstance(t, TensorType) for d in dims.dims_of(t) for s in d.symbols)
    for op in list(main.walk()):
        if isinstance(op, dims.AssumeOp) and not assumed_symbols(op) <= bound:
            op.detach()
            op.erase()


def _trees(state: State) -> None:
    """Tree ensembles as tables that kernels take."""
    if apply_patterns(state.module, [LowerTrees(state.weights)]):
        eliminate_dead_code(state.module)


def _bodies(state: State) -> None:
    if state.operators:
        from .codegen.kernels import TABLE

        attach_bodies(state.module, state.operators, TABLE)


def _outline(state: State) -> None:
    """Outlines; where a kernel then turns out to have no lowering, again with the ops that caused it hosted."""
    hosted: dict[str, str] = {}

    def native(op: Operation) -> str | None:
        return refuses(op) or (hosted.get(signature(op)) if hosted else None)

    graph = state.module
    while True:
        state.module = graph.clone()
        outline(state.module, native, fuse=state.options.fuse, facts=state.facts)
        found = not_lowered(state.kernels())
        if not found:
            return
        hosted.update(found)


def _fast_math(state: State) -> None:
    """A mark on each kernel, which its lowering obeys and which is part of its object's key."""
    for kernel in state.kernels() if state.options.fast_math else ():
        kernel.attributes[FAST_MATH] = UnitAttr()


def _precision(state: State) -> None:
    """The mode, as a mark on each kernel that multiplies in it."""
    mode = state.options.precision
    for kernel in state.kernels() if mode != "f32" else ():
        if use_precision(lower_to_tensor(kernel).body.block, mode):
            kernel.attributes[PRECISION] = StringAttr(mode)


def _schedules(state: State) -> None:
    """Choices that are given, by the caller or by the tuner, onto their kernels."""
    kernels, keys = state.kernels(), dict[str, str]()
    if state.tuned:
        constants = constant_operands(state.module)
        keys = {name_of(k): tuned_key(k, constants.get(name_of(k), ()), state.options.exact) for k in kernels}
    apply_schedules(kernels, state.options.schedule, state.tuned, keys)


def complete_origins(module: ModuleOp) -> None:
    """Every op says where it comes from: what a lowering added for a kernel as a whole comes from all its nodes.

    In `main`, what stands for no node of its own (constants, guards, the return) comes from what it serves.
    """
    for top in module.body.block.ops:
        whole = {i for op in top.walk() for i in origins_of(op)} or set(range(len(onnx.node_table(module))))
        attribute = onnx.ints_attr(tuple(sorted(whole)))
        for op in top.walk():
            if ORIGIN not in op.attributes and not isinstance(op, dims.AssumeOp):  # a caller's has no node
                op.attributes[ORIGIN] = attribute


def replace_function(old: FuncOp, new: FuncOp) -> None:
    """Puts a lowered kernel in the place of the one it came from; its identity (name, key, decisions) stays."""
    if new is old:
        return
    for name, value in old.attributes.items():
        new.attributes.setdefault(name, value)
    new.sym_name = old.sym_name
    block = old.parent
    assert block is not None
    if new.parent is None:
        block.insert_op_before(new, old)
    old.detach()
    old.erase()


def _tensor(state: State) -> None:
    for kernel in state.kernels():
        replace_function(kernel, lower_to_tensor(kernel))


def _prepack(state: State) -> None:
    prepack(state.module, state.weights, state.target, state.options.exact)


def _loops(state: State) -> None:
    for kernel in state.kernels():
        replace_function(kernel, to_loops(kernel, state.target))


def scratch_needs(state: State) -> dict[str, ScratchNeed]:
    """What each kernel at the loops level or below has reported."""
    needs: dict[str, ScratchNeed] = {}
    for kernel in state.module.body.block.ops:
        if "kernel.scratch" in kernel.attributes:
            shared, each = scratch_text(kernel, "kernel.scratch"), scratch_text(kernel, "kernel.thread_scratch")
            needs[name_of(kernel)] = ScratchNeed(parse_dims(shared)[0], parse_dims(each)[0])
    return needs


def _schedule(state: State) -> None:
    schedule(state.module, scratch_needs(state))


def _llvm(state: State) -> None:
    for kernel in state.kernels():
        lowered = to_llvm(kernel, state.target, symbol_of(kernel))
        block = kernel.parent
        assert block is not None
        block.insert_op_before(lowered, kernel)
        kernel.detach()
        kernel.erase()


GRAPH = frozenset(("builtin", "func", "onnx", "dims"))
KERNELS = GRAPH | {"kernel"}
TENSOR = KERNELS | {"linalg", "tensor", "arith", "math", "scf", "vectorx"}
LOOPS = KERNELS | {"scf", "vector", "vectorx", "memref", "arith", "math"}

PIPELINE: tuple[Stage, ...] = (
    Stage(
        "graph",
        (
            ("upgrade-opset", _upgrade),
            ("assume", _assume),
            ("check-operators", _check_operators),
            ("infer-shapes", _infer_model),
            ("expand-operators", _expand),
            ("integer-products", _integer_products),
            ("simplify", _simplify),
            ("widen-half", _widen),
            ("patterns", _user_patterns),
            ("compute-sizes", _compute_sizes),
            ("lower-trees", _trees),
            ("bodies", _bodies),
        ),
        GRAPH,
    ),
    Stage(
        "kernels",
        (
            ("outline-kernels", _outline),
            ("fast-math", _fast_math),
            ("precision", _precision),
            ("apply-schedules", _schedules),
        ),
        KERNELS,
    ),
    Stage("tensor", (("lower-to-tensor", _tensor),), TENSOR),
    Stage("loops", (("prepack", _prepack), ("lower-to-loops", _loops)), LOOPS),
    Stage("schedule", (("schedule", _schedule),), LOOPS),
    Stage("llvm", (("lower-to-llvm", _llvm),), LOOPS | {"llvm", "llvmx"}),
)

LEVEL = "sx.level"
"""The module's attribute that says which level it has reached."""

LEVELS = tuple(stage.level for stage in PIPELINE)

ORDER = (
    ("upgrade-opset", "check-operators", "functions have been instantiated, and their operators count"),
    ("check-operators", "infer-shapes", "a report names all operators that are not known, not the first"),
    ("upgrade-opset", "infer-shapes", "shape rules know one opset"),
    ("infer-shapes", "expand-operators", "whether axes are data is asked of values"),
    ("expand-operators", "simplify", "rules ask for dims, and see the operators that are left"),
    ("expand-operators", "integer-products", "operators that expand may be products of bytes"),
    ("infer-shapes", "integer-products", "rules ask for dims and element types"),
    ("integer-products", "simplify", "weights that are dequantized are folded to floats"),
    ("infer-shapes", "simplify", "rules ask for dims"),
    ("infer-shapes", "bodies", "a body depends on element types"),
    ("simplify", "bodies", "rules for graphs need not know bodies of scalars"),
    ("patterns", "compute-sizes", "inference would have the operators find their sizes again"),
    ("compute-sizes", "outline-kernels", "an operator that finds its size in data has no kernel"),
    ("simplify", "lower-trees", "tables are made once, of what is left"),
    ("lower-trees", "outline-kernels", "kernels take data by operands only"),
    ("bodies", "outline-kernels", "what has a body is taken into kernels"),
    ("simplify", "outline-kernels", "fusion sees one spelling of each computation"),
    ("outline-kernels", "fast-math", "kernels are marked"),
    ("outline-kernels", "precision", "kernels are marked"),
    ("precision", "apply-schedules", "what was tuned is of a mode"),
    ("outline-kernels", "apply-schedules", "choices are given for kernels, by name or key"),
    ("apply-schedules", "prepack", "the layout of weights follows from choices"),
    ("lower-to-loops", "schedule", "kernels have reported their scratch"),
)
"""Pairs of steps whose order matters, with the reason; a test holds the table to it."""


@dataclass(frozen=True)
class Done:
    """One step that has run: its level and name, and the seconds it took."""

    level: str
    step: str
    seconds: float


def run(state: State, *, to: str, start: str | None = None) -> Iterator[Done]:
    """Takes the module from `start` (exclusive; None: as imported) to the level `to`, yielding after each step.

    Raises CompilerBug, after leaving a reproducer file, when a step raises anything but an error of the user's.
    """
    state.module.attributes["sx.target"] = TargetAttr(state.target)
    first = 0 if start is None else LEVELS.index(start) + 1
    with without_collection():
        for stage in PIPELINE[first : LEVELS.index(to) + 1]:
            for name, step in stage.steps:
                began = time.perf_counter()
                try:
                    step(state)
                except Error:
                    raise
                except Exception as e:
                    raise bug(state.module, name, e) from e
                yield Done(stage.level, name, time.perf_counter() - began)
            complete_origins(state.module)
            check_legality(state.module, stage)
            state.module.attributes[LEVEL] = StringAttr(stage.level)


def check_legality(module: ModuleOp, stage: Stage) -> None:
    """Raises CompilerBug naming the first op whose dialect may not be left at this level."""
    for op in module.walk():
        dialect = op.name.split(".")[0]
        if dialect not in stage.leaves and not is_body(op):
            raise bug(module, stage.level, CompilerBug(f"{op.name} is left over after level '{stage.level}'"))


def is_body(op: Operation) -> bool:
    """Whether an op is part of the scalar body of a user's operator."""
    outer = op.parent_op()
    while outer is not None and not isinstance(outer, onnx.CustomOp):
        outer = outer.parent_op()
    return outer is not None


def bug(module: ModuleOp, step: str, error: Exception) -> CompilerBug:
    """The error to raise when a step fails: says where, and leaves the module as the step found it in a file."""
    path = written(step, f"// RUN: xdsl-opt %s -p sx-{step}\n{module_text(module)}")
    kind = type(error).__name__
    return CompilerBug(f"bug: step '{step}' failed with {kind}: {error}{told(path)}", reproducer=path)


def module_text(op: Operation) -> str:
    """The IR as text; where printing itself fails, what failed."""
    try:
        return str(op)
    except Exception as e:
        return f"// the module cannot be printed: {e}\n"
