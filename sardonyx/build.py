"""Kernels to objects: each distinct kernel once, from the object cache or in processes side by side.

Building IR in Python takes about as long as LLVM does, so a worker takes a kernel the whole way down.  Workers are
forked: they see the kernels where they are, and send back bytes.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import TypeAlias, cast

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from .codegen.kernels import checks_of, kernel_to_llvm
from .codegen.llvm_text import emit
from .codegen.objects import compile_object
from .dialects import onnx
from .dialects.dims import ShapeAttr, parse_dims, tensor_type
from .dialects.kernel import CallOp, TemplateOp
from .dialects.onnx.model import main_of
from .dialects.target import Target
from .lowering.choices import SCHEDULE, Number, ScheduleError, schedule_of
from .lowering.fast_math import FAST_MATH
from .lowering.kernels import TEMPLATES
from .lowering.kernels.precision import PRECISION
from .lowering.loops import lower_to_loops
from .lowering.prepack import (
    PACKED,
    Layout,
    apply_packing,
    choose_packing,
    pack,
    packed_attribute,
    packed_layouts,
    packed_type,
)
from .lowering.schedule import ScratchNeed
from .lowering.tensor import RULES, NotLowered, lower_to_tensor
from .lowering.tensor.element_kinds import element_of
from .options import compiler_digest
from .reproducers import told, written
from .rewrites.outline import single_op_kernels
from .runtime.errors import CompilerBug, Error, InputError
from .semantics.kinds import Kind, kind_of
from .semantics.known import constant_value
from .semantics.weights import WeightStore

Kernel: TypeAlias = FuncOp | ModuleOp
"""A kernel at any level: a function, or at the llvm level a module."""

FORK_FROM = 4
"""So many kernels to build, at least, before a second process pays."""


@dataclass(frozen=True)
class KernelObject:
    """One kernel, ready to link: symbol, scratch in its own dims (bytes), checks by site, choices, and machine code."""

    symbol: str
    shared_scratch: str
    thread_scratch: str
    checks: tuple[tuple[str, str], ...]
    schedule: dict[str, dict[str, Number]]
    """What was chosen, by part."""
    image: bytes
    seconds: dict[str, float]

    @property
    def scratch(self) -> ScratchNeed:
        return ScratchNeed(parse_dims(self.shared_scratch)[0], parse_dims(self.thread_scratch)[0])

    def to_bytes(self) -> bytes:
        """For the object cache: a line of JSON, then the image."""
        head = {k: v for k, v in asdict(self).items() if k != "image"}
        return json.dumps(head).encode() + b"\n" + self.image

    @staticmethod
    def from_bytes(data: bytes) -> KernelObject:
        """What `to_bytes` wrote."""
        head, _, image = data.partition(b"\n")
        fields = json.loads(head)
        fields["checks"] = tuple((code, message) for code, message in fields["checks"])
        return KernelObject(**fields, image=image)


def name_of(kernel: Operation) -> str:
    """A kernel's name in the module."""
    name = kernel.properties.get("sym_name") or kernel.attributes.get("sym_name")
    return name.data if isinstance(name, StringAttr) else ""


def kernels_in(module: ModuleOp) -> list[Kernel]:
    """The kernels of a module at the kernels level or below, in its order."""
    return [op for op in module.body.block.ops if isinstance(op, FuncOp | ModuleOp) and "kernel.key" in op.attributes]


def symbol_of(kernel: Operation) -> str:
    """The C symbol of a kernel: from its key, never from the model's text."""
    key = kernel.attributes["kernel.key"]
    assert isinstance(key, StringAttr)
    return f"k_{key.data}"


def refuses(op: Operation) -> str | None:
    """Why the lowering does not take an op into a kernel, as far as its class and types tell; None where it does."""
    if type(op) not in RULES:
        return "it has no lowering"
    for value in (*op.operands, *op.results):
        if not isinstance(value.type, TensorType):
            return f"{value.type} is no tensor"
        try:
            element = element_of(value.type.element_type)
        except NotLowered as error:
            return str(error)
        if element.kind == "c" and not takes_complex(op):
            return "kernels do not compute with complex numbers"
    return None


def takes_complex(op: Operation) -> bool:
    """Whether an op moves complex numbers as they are, or has a lowering that computes with them."""
    return kind_of(op) is Kind.MOVEMENT or isinstance(op, OF_COMPLEX)


OF_COMPLEX = (
    onnx.BitCastOp, onnx.Col2ImOp, onnx.CompressOp, onnx.GridSampleOp, onnx.IdentityOp, onnx.NonZeroOp,
    onnx.RandomNormalLikeOp, onnx.RandomUniformLikeOp, onnx.ResizeOp, onnx.ScatterElementsOp, onnx.ScatterNDOp,
    onnx.TensorScatterOp, onnx.UniqueOp, onnx.WhereOp,
)  # fmt: skip
"""Operators that are no movement and have such a lowering."""


def signature(op: Operation) -> str:
    """What the lowering of an op may depend on, but for sizes: class, attributes, element types and ranks."""
    types = [f"{v.type.element_type}:{v.type.get_num_dims()}" for v in (*op.operands, *op.results)
             if isinstance(v.type, TensorType)]  # fmt: skip
    attributes = {k: str(v) for k, v in sorted(op.properties.items()) if not isinstance(v, ShapeAttr)}
    return f"{op.name} {attributes} {types}"


def not_lowered(kernels: Sequence[FuncOp]) -> dict[str, str]:
    """The signatures of ops that turn out to have no lowering in the form that they have, with the reason.

    Raises CompilerBug for a kernel that fails though each of its ops passes alone: fusion made what lowering refuses.
    """
    found: dict[str, str] = {}
    for kernel in kernels:
        reason = why_not(kernel)
        if reason is None:
            continue
        alone = {signature(op): why for op, single in single_op_kernels(kernel) if (why := why_not(single))}
        if not alone:
            raise kernel_bug(kernel, NotLowered(reason))
        found.update(alone)
    return found


def why_not(kernel: FuncOp) -> str | None:
    """Why a kernel cannot be lowered: an op's form, or a template that is not there; None where it can."""
    try:
        tensor = lower_to_tensor(kernel)
    except NotLowered as e:
        return str(e)
    for op in tensor.walk():
        if isinstance(op, TemplateOp) and op.template.data not in TEMPLATES:
            return f"there is no template {op.template.data!r}"
    return None


def build_kernel(kernel: FuncOp | ModuleOp, target: Target) -> KernelObject:
    """Takes one kernel from the level that it is at to an object; the op given is left as it is."""
    seconds: dict[str, float] = {}
    began = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal began
        now = time.perf_counter()
        seconds[name] = now - began
        began = now

    symbol = symbol_of(kernel)
    module = kernel
    if isinstance(module, FuncOp) and not is_lowered(module):
        layouts = packed_layouts(module)
        module = lower_to_tensor(module)
        apply_packing(module, layouts)
        lap("tensor")
    if isinstance(module, FuncOp) and not is_in_loops(module):
        module = to_loops(module, target)
        lap("loops")
    if isinstance(module, FuncOp):
        module = to_llvm(module, target, symbol)
        lap("llvm")
    text = emit(module)
    lap("text")
    image = compile_object(text, target)
    lap("object")
    shared, each = scratch_text(module, "kernel.scratch"), scratch_text(module, "kernel.thread_scratch")
    return KernelObject(symbol, shared, each, checks_in(module), schedule_of(module), image, seconds)


def prepack(module: ModuleOp, weights: WeightStore, target: Target, exact: bool = False) -> None:
    """Packs the constant operands of templates: chooses layouts, replaces the constants, and tells the kernels.

    Works on kernels at the kernels and at the tensor level.  With `exact` no other algorithm is chosen for it.
    """
    calls, constants = calls_in(module), constant_operands(module)
    packed: dict[tuple[SSAValue, Layout], SSAValue] = {}
    for kernel in kernels_in(module):
        users = calls.get(name_of(kernel), [])
        if not isinstance(kernel, FuncOp) or not users or is_in_loops(kernel):
            continue
        constant = constants[name_of(kernel)]
        if not constant:
            continue
        tensor = kernel if is_lowered(kernel) else lower_to_tensor(kernel)

        def finite(number: int, users: list[CallOp] = users) -> bool:
            return all(is_finite(call.inputs[number], weights) for call in users)

        layouts = choose_packing(tensor, constant, target, exact, finite)
        if not layouts:
            continue
        kernel.attributes[PACKED] = packed_attribute(layouts)
        if is_lowered(kernel):
            apply_packing(kernel, layouts)
        for call in users:
            for number, layout in layouts.items():
                call.operands[number] = packed_constant(call.inputs[number], layout, weights, packed)


def calls_in(module: ModuleOp) -> dict[str, list[CallOp]]:
    """The calls in `main` and its regions, by kernel."""
    calls: dict[str, list[CallOp]] = {}
    for op in main_of(module).walk():
        if isinstance(op, CallOp):
            calls.setdefault(op.callee.string_value(), []).append(op)
    return calls


def constant_operands(module: ModuleOp) -> dict[str, list[int]]:
    """For each kernel that is called, the operands that are constants at all its calls."""
    return {
        name: [i for i in range(len(users[0].inputs)) if all(is_weight(c.inputs[i]) for c in users)]
        for name, users in calls_in(module).items()
    }


def is_weight(value: SSAValue) -> bool:
    """Whether a value is a constant that lives in the weights table and that no caller replaces."""
    owner = value.owner
    return isinstance(owner, onnx.ConstantOp) or (isinstance(owner, onnx.InitializerOp) and owner.overridable is None)


def is_finite(value: SSAValue, weights: WeightStore) -> bool:
    """Whether a constant has neither NaN nor infinities."""
    array = constant_value(value, weights)
    return array is not None and isfinite(array.min(initial=0)) and isfinite(array.max(initial=0))


def packed_constant(
    value: SSAValue, layout: Layout, weights: WeightStore, done: dict[tuple[SSAValue, Layout], SSAValue]
) -> SSAValue:
    """The constant in a layout, beside the original."""
    if (value, layout) in done:
        return done[value, layout]
    array = constant_value(value, weights)
    owner = value.owner
    assert array is not None and isinstance(owner, Operation) and isinstance(value.type, TensorType)
    flat = pack(layout, array)
    handle = weights.add(flat)
    constant = onnx.ConstantOp.make(
        [], {"value": handle}, [tensor_type(packed_type(layout[0], value.type.element_type), flat.shape)], like=owner
    )
    block = owner.parent
    assert block is not None
    block.insert_op_after(constant, owner)
    done[value, layout] = constant.results[0]
    return constant.results[0]


def is_lowered(kernel: FuncOp) -> bool:
    """Whether a kernel function is at the tensor level or below."""
    return "kernel.arg_dims" in kernel.attributes or is_in_loops(kernel)


def is_in_loops(kernel: FuncOp) -> bool:
    """Whether a kernel function is at the loops level: its results are arguments."""
    return "kernel.scratch" in kernel.attributes


def to_loops(kernel: FuncOp, target: Target) -> FuncOp:
    """The kernel's loops. Raises InputError where choices are given that cannot be."""
    try:
        return lower_to_loops(kernel, target)
    except ScheduleError as e:
        raise InputError(f"schedule of kernel {name_of(kernel)!r}: {e}") from e


def to_llvm(kernel: FuncOp, target: Target, symbol: str) -> ModuleOp:
    """The kernel's llvm module, which also carries what the kernel reports to the schedule and the entry."""
    module = kernel_to_llvm(kernel, target, symbol)
    for name in (
        "kernel.key",
        "kernel.scratch",
        "kernel.thread_scratch",
        "kernel.ops",
        "kernel.fused",
        "kernel.patterns",
        SCHEDULE,
    ):
        if (value := kernel.attributes.get(name)) is not None:
            module.attributes[name] = value
    checks = [ArrayAttr([StringAttr(c.code.data), StringAttr(c.message.data)]) for c in checks_of(kernel)]
    module.attributes["kernel.checks"] = ArrayAttr(checks)
    module.sym_name = kernel.sym_name
    return module


def checks_in(module: ModuleOp) -> tuple[tuple[str, str], ...]:
    """The checks of a kernel at the llvm level, by site."""
    listed = cast("ArrayAttr[ArrayAttr[StringAttr]]", module.attributes.get("kernel.checks", ArrayAttr(())))
    return tuple((entry.data[0].data, entry.data[1].data) for entry in listed)


def scratch_text(kernel: Operation, name: str) -> str:
    """The scratch that a kernel reports, as an expression; "0" where it has none."""
    attribute = kernel.attributes.get(name)
    return str(attribute.data[0]) if isinstance(attribute, ShapeAttr) else "0"


def object_key(kernel: Operation, target: Target) -> str:
    """The object cache's key: the kernel's own, layouts and choices, target, and the product's version and sources."""
    key = kernel.attributes["kernel.key"]
    assert isinstance(key, StringAttr)
    below = "" if isinstance(kernel, FuncOp) and not is_lowered(kernel) else str(kernel)  # may be edited by hand
    marks = f"{FAST_MATH in kernel.attributes} {kernel.attributes.get(PRECISION)}"
    given = "" if below else f"{kernel.attributes.get(SCHEDULE)} {marks}"
    text = f"{key.data} {kernel.attributes.get(PACKED)} {given} {below} {target} {compiler_digest()}"
    return hashlib.sha256(text.encode()).hexdigest()


def build_kernels(
    kernels: Sequence[Kernel],
    target: Target,
    load: Callable[[str], bytes | None],
    store: Callable[[str, bytes], None],
    processes: int,
) -> Iterator[tuple[Kernel, KernelObject]]:
    """Every kernel's object, in no fixed order; `load` and `store` are the object cache's.

    Raises the error of the first kernel that fails.
    """
    missing: list[Kernel] = []
    for kernel in kernels:
        if (data := load(object_key(kernel, target))) is not None:
            yield kernel, KernelObject.from_bytes(data)
        else:
            missing.append(kernel)
    if len(missing) < FORK_FROM or processes < 2:
        done: Iterator[tuple[Kernel, KernelObject]] = ((k, build_named(k, target)) for k in missing)
    else:
        done = build_forked(missing, target, processes)
    for kernel, built in done:
        store(object_key(kernel, target), replace(built, seconds={}).to_bytes())
        yield kernel, built


def build_named(kernel: Kernel, target: Target) -> KernelObject:
    """Builds a kernel; an error of ours says which kernel it was and leaves its text in a file."""
    try:
        return build_kernel(kernel, target)
    except Error:
        raise
    except Exception as e:
        raise kernel_bug(kernel, e) from e


def kernel_bug(kernel: Kernel, error: Exception) -> CompilerBug:
    """The error to raise when a kernel cannot be built."""
    path = written(name_of(kernel), f"// RUN: xdsl-opt %s -p sx-lower-to-tensor,sx-lower-to-loops\n{kernel}\n")
    last = traceback.extract_tb(error.__traceback__)[-1]
    return CompilerBug(
        f"bug: kernel '{name_of(kernel)}' failed with {type(error).__name__}: {error}"
        f" ({os.path.basename(last.filename)}:{last.lineno}){told(path)}",
        reproducer=path,
    )


def build_forked(kernels: Sequence[Kernel], target: Target, processes: int) -> Iterator[tuple[Kernel, KernelObject]]:
    """Builds in forked workers that take kernels from one queue (a pipe of numbers), so no worker idles."""
    queue_out, queue_in = os.pipe()
    for number in range(len(kernels)):
        os.write(queue_in, number.to_bytes(4, "little"))
    os.close(queue_in)
    workers: list[tuple[int, int]] = []
    sys.stdout.flush()
    sys.stderr.flush()
    for _ in range(min(processes, len(kernels))):
        answers_out, answers_in = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(answers_out)
            work(kernels, target, queue_out, answers_in)
        os.close(answers_in)
        workers.append((pid, answers_out))
    os.close(queue_out)
    try:
        yield from collect(kernels, [fd for _, fd in workers])
    finally:
        for pid, fd in workers:
            os.close(fd)
            os.waitpid(pid, 0)


def work(kernels: Sequence[Kernel], target: Target, queue: int, answers: int) -> None:
    """A worker's life: kernels until the queue is empty, answers as length and pickle; it never returns."""
    status = 1
    try:
        gc.disable()
        with os.fdopen(answers, "wb") as out:
            while len(number := os.read(queue, 4)) == 4:
                at = int.from_bytes(number, "little")
                try:
                    answer: tuple[int, KernelObject | Error] = (at, build_named(kernels[at], target))
                except Error as e:
                    answer = (at, e)
                data = pickle.dumps(answer)
                out.write(len(data).to_bytes(8, "little") + data)
                out.flush()
        status = 0
    finally:
        os._exit(status)


def collect(kernels: Sequence[Kernel], pipes: Sequence[int]) -> Iterator[tuple[Kernel, KernelObject]]:
    """Reads the workers' answers as they come."""
    import select

    buffers = {fd: bytearray() for fd in pipes}
    open_pipes = set(pipes)
    received = 0
    while open_pipes:
        ready, _, _ = select.select(list(open_pipes), [], [])
        for fd in ready:
            chunk = os.read(fd, 1 << 20)
            if not chunk:
                open_pipes.discard(fd)
                continue
            buffers[fd] += chunk
            while len(buffers[fd]) >= 8:
                size = int.from_bytes(buffers[fd][:8], "little")
                if len(buffers[fd]) < 8 + size:
                    break
                at, answer = pickle.loads(bytes(buffers[fd][8 : 8 + size]))
                del buffers[fd][: 8 + size]
                if isinstance(answer, Error):
                    raise answer
                received += 1
                yield kernels[at], answer
    if received < len(kernels):
        raise CompilerBug(f"bug: a compiler process died; {len(kernels) - received} kernels are not built")
