"""The command line: `sardonyx run | compile | bench | profile | tune | inspect | explain | compare | infer | ...`.

Exit codes: 0 ok, 1 a check failed, 2 usage, 3 model or input error, 4 unsupported, 70 our bug.  Every command takes
`--json`.  Only the command that runs imports what it needs, so `--help` is quick.
"""

from __future__ import annotations

import gc
import json
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import __version__
from .precision import NEEDS
from .runtime.errors import CompilerBug, Error, UnsupportedError, UsageError

if TYPE_CHECKING:
    from .program import Program

OK, CHECK_FAILED, USAGE, MODEL_ERROR, UNSUPPORTED, BUG = 0, 1, 2, 3, 4, 70

MODEL = click.argument("model", type=click.Path(path_type=Path))
MEMORY = click.option(
    "--memory", metavar="SYMBOL=N,...", help="The arena at these sizes: peak, what is live, formulas."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
Command = Callable[..., Any]
TEXT = ".mlir"
"""How files of IR text end."""


def compile_options(command: Command) -> Command:
    """The options that every compiling command shares."""
    for option in reversed((
        click.option("--threads", type=click.IntRange(1), help="Threads to run on, the caller included."),
        click.option("--assume", multiple=True, metavar="FACT", help='A guarded fact on sizes, such as "S == T".'),
        click.option("--no-fuse", is_flag=True, help="One kernel for each operator."),
        click.option("--exact", is_flag=True, help="No rewrite that changes rounding or a zero's sign."),
        click.option("--fast-math", is_flag=True, help="A product and a sum of different operators round once."),
        click.option("--precision", type=click.Choice(tuple(NEEDS)), default="f32", show_default=True,
                     help="What products of f32 are computed with."),
        click.option("--schedule", type=click.Path(path_type=Path), metavar="FILE",
                     help="Choices for kernels, as JSON: {kernel: {part: {choice: number}}}."),
        click.option("--no-tuned", is_flag=True, help="Do not take what `tune` found on this machine."),
        click.option("--no-cache", is_flag=True, help="Neither read nor write the caches."),
    )):  # fmt: skip
        command = option(command)
    return command


def compiled(model: Path, options: dict[str, Any], *, timed: bool = False) -> Program:
    """The program for a model, with progress by phase on a terminal."""
    from .program import compile

    with progress() as report:
        return compile(
            model,
            threads=options.get("threads"),
            assume=options.get("assume") or (),
            fuse=not options.get("no_fuse"),
            exact=bool(options.get("exact")),
            fast_math=bool(options.get("fast_math")),
            precision=options.get("precision", "f32"),
            schedule=options.get("schedule"),
            tuned=not options.get("no_tuned"),
            cache=not options.get("no_cache"),
            timed=timed,
            progress=report,
        )


@contextmanager
def progress() -> Generator[Callable[[str, int, int], None] | None]:
    """A line that follows the compiler on a terminal; nothing where standard error is a pipe or a file."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    bar = Progress(TextColumn("{task.description:<16}"), BarColumn(24), MofNCompleteColumn(),
                   console=Console(stderr=True), transient=True)  # fmt: skip
    with bar:
        task = bar.add_task("read", total=1)

        def report(phase: str, done: int, total: int) -> None:
            bar.update(task, description=phase, completed=done, total=total)

        yield report


def emit_result(value: Any, as_json: bool, text: str) -> None:
    """Prints a command's result."""
    click.echo(json.dumps(value, indent=1, default=str) if as_json else text)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="sardonyx")
def cli() -> None:
    """Compile ONNX models to fused native kernels, run them, and see what happened."""


@cli.command("run", short_help="Compile a model and run it once.")
@MODEL
@click.option("--input", "inputs", multiple=True, metavar="NAME=@FILE.npy|NAME=2x3xf32[=VALUE]",
              help="An input: from a file, or of a shape and type with one value (default: random).")  # fmt: skip
@click.option("--size", "sizes", multiple=True, metavar="SYMBOL=N", help="The size of a symbol for random inputs.")
@click.option("--output", type=click.Path(path_type=Path), help="Write all outputs into this .npz file.")
@compile_options
@JSON
def run_command(
    model: Path, inputs: tuple[str, ...], sizes: tuple[str, ...], output: Path | None, as_json: bool, **options: Any
) -> None:
    """Compile MODEL and run it once, on inputs given or random.

    MODEL may also be a level's text, as `compile --emit LEVEL -o FILE.mlir` writes it, edited or not.
    """
    from .tools.feeds import make_feeds
    from .tools.results import described, rendered, save

    if model.suffix == TEXT:
        from .compiler import inputs_of, read, run

        module = read(model)
        outputs = run(module, make_feeds(inputs_of(module), inputs, sizes), threads=options["threads"])
    else:
        program = compiled(model, options)
        outputs = program(make_feeds(program.inputs, inputs, sizes))
    if output is not None:
        save(output, outputs)
    report = {name: described(value) for name, value in outputs.items()}
    emit_result(report, as_json, "\n".join(f"{name}: {rendered(row)}" for name, row in report.items()))


@cli.command("compile", short_help="Compile a model, or show it at a level.")
@MODEL
@click.option("--emit", "level", help="Print this level: graph, kernels, tensor, loops, schedule, llvm, ll or asm.")
@click.option("--kernel", "kernel_name", help="With --emit: only this kernel.")
@click.option("--time-passes", is_flag=True, help="Print what each step took.")
@click.option(
    "-o",
    "output",
    type=click.Path(path_type=Path),
    help="Write the level's text to this file, and its weights beside it: it parses back and runs.",
)
@compile_options
@JSON
def compile_command(
    model: Path, level: str | None, kernel_name: str | None, time_passes: bool, output: Path | None, as_json: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Compile MODEL into the cache, or show it at one level."""
    from .compiler import EMITTABLE, emitted
    from .options import Options

    if level is None:
        for option, value in (("-o", output), ("--kernel", kernel_name)):
            if value is not None:
                raise click.UsageError(f"{option} needs --emit LEVEL, which says what to write: {', '.join(EMITTABLE)}")
        program = compiled(model, options)
        report = program.explain().to_dict()
        seconds = program.seconds
        lines = [f"{len(report['kernels'])} kernel calls, {len(report['functions'])} distinct, hosted: "
                 f"{', '.join(report['hosted']) or 'none'}"]  # fmt: skip
        if time_passes and not seconds:
            lines.append("  from the cache: no step has run; with --no-cache each does, and its time is told")
        if time_passes:
            lines += [f"  {name:<20} {value:8.3f} s" for name, value in seconds.items()]
        emit_result({"kernels": len(report["kernels"]), "hosted": report["hosted"], "seconds": seconds}, as_json,
                    "\n".join(lines))  # fmt: skip
        return
    if level not in EMITTABLE:
        raise click.UsageError(f"no level {level!r}; there are {', '.join(EMITTABLE)}")
    from .program import normal_schedule

    choices = Options(
        assume=options["assume"], fuse=not options["no_fuse"], exact=options["exact"],
        fast_math=options["fast_math"], precision=options["precision"],
        schedule=normal_schedule(options["schedule"]),
    )  # fmt: skip
    beside = output.with_name(f"{output.name}.weights") if output is not None else None
    text, seconds = emitted(model, level, choices, kernel=kernel_name, weights=beside)
    if output is not None:
        output.write_text(text)
    shown = {"output": str(output)} if output is not None else {"text": text}
    emit_result({"level": level, **shown, "seconds": seconds}, as_json, f"wrote {output}" if output else text)
    if time_passes:
        for name, value in seconds.items():
            click.echo(f"{name:<20} {value:8.3f} s", err=True)


@cli.command("inspect", short_help="What a model is: inputs, operators, symbols.")
@MODEL
@click.option("--dims", "show_dims", is_flag=True, help="List symbols, where each is bound, and guards.")
@MEMORY
@JSON
def inspect_command(model: Path, show_dims: bool, memory: str | None, as_json: bool) -> None:
    """What MODEL is: inputs, outputs, operators, opsets, sizes, symbols."""
    if memory is not None:
        emit_memory(compiled(model, {}), memory, as_json)
        return
    from .compiler import imported_and_inferred
    from .tools.inspect import inspect_module, render_inspection

    imported, inferred = imported_and_inferred(model)
    report = inspect_module(inferred, imported=imported, show_dims=show_dims)
    emit_result(report, as_json, render_inspection(report))


@cli.command("explain", short_help="Kernels, fusions with reasons, memory, guards.")
@MODEL
@click.option("--kernels", is_flag=True, help="Also what was chosen for each kernel: tiles, blocks, grains.")
@MEMORY
@compile_options
@JSON
def explain_command(model: Path, kernels: bool, memory: str | None, as_json: bool, **options: Any) -> None:
    """What the compiler decided: kernels, fusions taken and refused with reasons, memory, guards, hosted operators."""
    from .tools.report import render

    program = compiled(model, options)
    if memory is not None:
        emit_memory(program, memory, as_json)
        return
    report = program.explain().to_dict()
    emit_result(report, as_json, render(report, kernels))


def emit_memory(program: Program, sizes: str, as_json: bool) -> None:
    """Prints the arena at the sizes in a text like `B=8,T=128`."""
    given: dict[str, int] = {}
    for part in filter(None, (p.strip() for p in sizes.split(","))):
        name, _, value = part.rpartition("=")
        if not name or not value.strip().isdecimal():
            raise click.UsageError(f"--memory takes SYMBOL=N,...; {part!r} is none")
        given[name.strip()] = int(value)
    analysis = program.memory_analysis(given)
    emit_result(analysis.to_dict(), as_json, str(analysis))


@cli.command("compare", short_help="Run in two ways; the first node that differs.")
@MODEL
@click.option("--with", "--against", "other", default="model", show_default=True,
              help="The other side: model (the file's nodes in numpy, no rewrite), graph, kernels, tensor (numpy at "
              "that level), native, unfused, plain (no vectors, tiles, fusion), onnxruntime, or a file.")  # fmt: skip
@click.option("--side", default="native", show_default=True, help="This side, likewise.")
@click.option("--trace/--no-trace", default=None, help="Compare inner values (default: where an output differs).")
@click.option("--input", "inputs", multiple=True, metavar="NAME=@FILE.npy|NAME=2x3xf32[=VALUE]")
@click.option("--size", "sizes", multiple=True, metavar="SYMBOL=N")
@click.option("--rtol", default=1e-3, show_default=True)
@click.option("--atol", default=1e-5, show_default=True)
@compile_options
@JSON
def compare_command(
    model: Path, other: str, side: str, trace: bool | None, inputs: tuple[str, ...], sizes: tuple[str, ...],
    rtol: float, atol: float, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Run MODEL in two ways, and report the differences and the first node that differs.

    MODEL, and the other side, may also be a level's text, as `compile --emit LEVEL -o FILE.mlir` writes it.
    """
    from .comparison import compare
    from .compiler import inputs_of, read
    from .sides import SIDES
    from .tools.compare import render_comparison
    from .tools.feeds import make_feeds

    against: Any = other
    if other not in SIDES and Path(other).exists():
        against = read(Path(other)) if Path(other).suffix == TEXT else Path(other)
    for name in (side, against):
        if isinstance(name, str) and name not in SIDES:
            raise click.UsageError(f"no side and no file {name!r}; there are {', '.join(SIDES)}")
    settings = {"threads": options["threads"], "assume": options["assume"], "exact": options["exact"]}
    if model.suffix == TEXT:
        if isinstance(against, str):
            raise click.UsageError(f"{model} is text of a level: give the model, or other text, to compare with")
        left: Any = read(model)
        specs = inputs_of(left)
    else:
        program = compiled(model, options)
        left, specs = (program if side == "native" else model), program.inputs
    feeds = make_feeds(specs, inputs, sizes)
    report = compare(left, feeds, side=side, against=against, trace=trace, rtol=rtol, atol=atol, **settings)
    emit_result(report, as_json, render_comparison(report))
    if not report["equal"]:
        sys.exit(CHECK_FAILED)


@cli.command("bench", short_help="Time a model, beside onnxruntime.")
@MODEL
@click.option("--input", "inputs", multiple=True, metavar="NAME=@FILE.npy|NAME=2x3xf32[=VALUE]")
@click.option("--size", "sizes", multiple=True, metavar="SYMBOL=N")
@click.option(
    "--seconds", type=click.FloatRange(0), default=2.0, show_default=True, help="How long to measure each side."
)
@compile_options
@JSON
def bench_command(
    model: Path, inputs: tuple[str, ...], sizes: tuple[str, ...], seconds: float, as_json: bool, **options: Any
) -> None:
    """Time MODEL, beside onnxruntime where it is installed, in interleaved rounds."""
    from .tools.bench import bench_model, render_bench
    from .tools.feeds import make_feeds

    program = compiled(model, options)
    feeds = make_feeds(program.inputs, inputs, sizes)
    report = bench_model(model, program, feeds, seconds=seconds, threads=options.get("threads"))
    emit_result(report, as_json, render_bench(report))


@cli.command("tune", short_help="Find the fastest choices for kernels here.")
@MODEL
@click.option(
    "--budget",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="About how long to measure.",
)
@click.option("--size", "sizes", multiple=True, metavar="SYMBOL=N", help="The size of a symbol to measure at.")
@click.option("--workers", default="processes", show_default=True, metavar="WHERE",
              help="here, processes (a crash loses one job), or a Dask scheduler's address.")  # fmt: skip
@click.option("--threads", type=click.IntRange(1), help="Threads to measure with.")
@click.option("--assume", multiple=True, metavar="FACT", help='A guarded fact on sizes, such as "S == T".')
@click.option("--exact", is_flag=True, help="As in `compile`: results are kept for that mode.")
@click.option("--dry-run", is_flag=True, help="Measure, and keep nothing.")
@JSON
def tune_command(
    model: Path, budget: float, sizes: tuple[str, ...], workers: str, threads: int | None, assume: tuple[str, ...],
    exact: bool, dry_run: bool, as_json: bool,
) -> None:  # fmt: skip
    """Measure variants of MODEL's kernels here, and keep the fastest choices for later compilations."""
    from .tuner import render_tuning, tune
    from .workers import executor_named

    with progress() as shown, executor_named(workers, timeout=max(60.0, budget)) as executor:
        report = tune(
            model, budget=budget, sizes=sizes, assume=assume, exact=exact, threads=threads, workers=executor,
            progress=shown, keep=not dry_run,
        )  # fmt: skip
    emit_result(report, as_json, render_tuning(report))
    if any(row["rejected"] for row in report["kernels"]):
        sys.exit(CHECK_FAILED)


@cli.command("profile", short_help="Where the time of a model goes.")
@MODEL
@click.option("--input", "inputs", multiple=True, metavar="NAME=@FILE.npy|NAME=2x3xf32[=VALUE]")
@click.option("--size", "sizes", multiple=True, metavar="SYMBOL=N")
@click.option("--seconds", type=click.FloatRange(0), default=2.0, show_default=True, help="How long to measure.")
@click.option("--chrome-trace", type=click.Path(path_type=Path), help="Write one run as trace events to this file.")
@compile_options
@JSON
def profile_command(
    model: Path, inputs: tuple[str, ...], sizes: tuple[str, ...], seconds: float, chrome_trace: Path | None,
    as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Where MODEL's time goes: each kernel's time, rates, and share of what the machine can do."""
    from .tools.feeds import make_feeds
    from .tools.machine import measured
    from .tools.profile import profile_program, render_profile

    program = compiled(model, options, timed=True)
    feeds = make_feeds(program.inputs, inputs, sizes)
    report = profile_program(program, feeds, measured(program.threads), seconds=seconds)
    trace = report.pop("trace")
    if chrome_trace is not None:
        chrome_trace.write_text(json.dumps(trace))
    emit_result(report, as_json, render_profile(report))


@cli.command("infer", short_help="Write a model with every dimension.")
@MODEL
@click.option("-o", "output", type=click.Path(path_type=Path), required=True, help="The model with its dims.")
@click.option("--keep-defaults", is_flag=True, help="Rest on no initializer that is also an input.")
@JSON
def infer_command(model: Path, output: Path, keep_defaults: bool, as_json: bool) -> None:
    """Write MODEL with every dim it can know: numbers, or expressions in the model's own symbols."""
    from .frontend.saving import drafted
    from .infer import infer_shapes

    inferred = infer_shapes(model, keep_defaults=keep_defaults)
    with drafted(inferred, output, model.parent) as draft:
        draft.keep()
    data = str(draft.data_output) if draft.data_output is not None else None
    told = f"wrote {output}" + (f" and its data, {data}" if data is not None else "")
    emit_result({"output": str(output), "data": data}, as_json, told)


@cli.command("simplify", short_help="Write a model simplified.")
@MODEL
@click.option("-o", "output", type=click.Path(path_type=Path), required=True, help="The simplified model.")
@click.option("--validate", is_flag=True, help="Run both models at several sizes and compare them.")
@click.option("--size", "sizes", multiple=True, metavar="SYMBOL=N", help="With --validate: the size of a symbol.")
@click.option("--exact", is_flag=True, help="No rewrite that changes rounding or a zero's sign.")
@click.option("--keep-defaults", is_flag=True, help="Fold no initializer that is also an input.")
@JSON
def simplify_command(
    model: Path,
    output: Path,
    validate: bool,
    sizes: tuple[str, ...],
    exact: bool,
    keep_defaults: bool,
    as_json: bool,
) -> None:
    """Write MODEL simplified: same names, shapes and opset, fewer nodes; the log says which rule did what."""
    from .simplifier import render_simplification, simplified

    report = simplified(model, output, exact=exact, keep_defaults=keep_defaults, validate=validate, sizes=sizes)
    emit_result(report, as_json, render_simplification(report))
    if validate and not report["validation"]["equal"]:
        sys.exit(CHECK_FAILED)


@cli.command("opt", short_help="Run single passes on IR text or a model.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-p", "passes", required=True, help="Passes, comma-separated, as xdsl-opt takes them.")
def opt_command(file: Path, passes: str) -> None:
    """Run single passes on IR text (or on an ONNX model) and print the result."""
    from .tools.opt import run_passes
    from .universe import UNIVERSE

    click.echo(run_passes(file, passes, UNIVERSE))


@cli.group("cache")
def cache_group() -> None:
    """The caches of programs and objects."""


@cache_group.command("info")
@JSON
def cache_info(as_json: bool) -> None:
    """Where the caches are and how much they hold."""
    from .runtime.cache import summary

    report = summary()
    emit_result(report, as_json, "\n".join(f"{key}: {value}" for key, value in report.items()))


@cache_group.command("clear")
@JSON
def cache_clear(as_json: bool) -> None:
    """Remove everything from the caches."""
    from .runtime.cache import clear

    removed = clear()
    emit_result({"removed": removed}, as_json, f"removed {removed} entries")


def main() -> None:
    """Runs the command line and exits; errors of ours go to standard error in one piece."""
    try:
        cli(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as e:
        if "--json" in sys.argv[1:]:
            fail(e.format_message(), USAGE)
        e.show()
        sys.exit(USAGE)
    except UsageError as e:
        fail(str(e), USAGE)
    except CompilerBug as e:
        fail(str(e), BUG)
    except UnsupportedError as e:
        fail(str(e), UNSUPPORTED)
    except Error as e:
        fail(str(e), MODEL_ERROR)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(OK)  # the reader has seen enough
    except OSError as e:
        if e.filename is None:
            raise_bug(e)
        fail(f"{e.filename}: {e.strerror}", MODEL_ERROR)  # no such folder, no room, no permission
    except Exception as e:
        raise_bug(e)
    finally:
        gc.freeze()  # what is left is not searched for cycles once more


def raise_bug(error: Exception) -> None:
    """Says that an error is ours, with its traceback, and exits."""
    traceback.print_exception(error)
    fail(f"bug: {type(error).__name__}: {error}\n   = help: please report this with the lines above", BUG)


def fail(message: str, status: int) -> None:
    """Prints an error the way compilers do, or with `--json` as an object on standard output, and exits."""
    if "--json" in sys.argv[1:]:
        click.echo(json.dumps({"error": message.removeprefix("error: "), "exit_code": status}))
        sys.exit(status)
    text = message if message.startswith(("error:", "bug:")) else f"error: {message}"
    click.echo(text, err=True)
    sys.exit(status)
