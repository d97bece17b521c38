"""Where an elementary function is expanded: the target, and the module for what is called out of line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from ..dialects.target import Target
from .build import FunctionBuilder, declare
from .lanes import Lanes
from .llvm_types import element_of, suffix
from .scope import ModuleState


@dataclass(frozen=True)
class Mathematics:
    """Given to every expansion."""

    state: ModuleState

    @property
    def target(self) -> Target:
        return self.state.target

    def with_slow_path(self, x: Lanes, fast: Lanes, limit: float, name: str, slow: Callable[[Lanes], Lanes]) -> Lanes:
        """`fast`, but in the lanes where |x| is above the limit `slow`, called out of line if there are any.

        (Lanes of a vector do not depend on each other: the same x gives the same bits among any neighbours.)
        """
        f = x.f
        call, after = f.new_block(), f.new_block(x.type)
        large = x.abs() > limit
        f.cond_br(_any(large), call, (), after, (fast.value,))
        f.at(call)
        result = f.call(self._out_of_line(name, x, slow), (x.value,), x.type)
        assert result is not None
        f.br(after, (large.choose(x.of(result), fast).value,))
        (chosen,) = f.at(after)
        return x.of(chosen)

    def _out_of_line(self, name: str, x: Lanes, function: Callable[[Lanes], Lanes]) -> str:
        symbol = f"{self.state.symbol}.{name}.{suffix(x.type)}"
        if symbol not in self.state.known:
            self.state.known.add(symbol)
            f = FunctionBuilder(symbol, [x.type], x.type, attrs=("nounwind", "cold", "noinline"))
            f.ret(function(Lanes(f, f.args[0])).value)
            self.state.functions.append(f.func)
        return symbol

    def libm(self, name: str, *args: Lanes) -> Lanes:
        """Calls a function of the C library, lane by lane."""
        x = args[0]
        f = x.f
        element = element_of(x.type)
        if name not in self.state.known:
            self.state.known.add(name)
            self.state.functions.append(declare(name, [element] * len(args), element))
        if not x.count:
            result = f.call(name, [arg.value for arg in args], element)
            assert result is not None
            return x.of(result)
        total = f.poison(x.type)
        for lane in range(x.count):
            result = f.call(name, [f.extract(arg.value, lane) for arg in args], element)
            assert result is not None
            total = f.insert_lane(total, result, lane)
        return x.of(total)


def _any(mask: Lanes) -> SSAValue:
    """Whether any lane of a mask is set."""
    if mask.count is None:
        return mask.value
    f = mask.f
    bits = f.bitcast(mask.value, IntegerType(mask.count))
    return f.icmp("ne", bits, f.const(0, bits.type))
