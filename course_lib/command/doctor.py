"""Find the mistakes in attention code of your own: what is wrong, on which line, and a question that leads to it.

NAME is a class, which is built with --args; a module; a function of x, or of queries, keys and values; or a function
that returns a module. Importing a file runs it, and so does building the class: name only code that you would run
yourself.
"""

import argparse
import sys
from contextlib import redirect_stdout
from typing import Any

from .clone import CourseError
from .target import Target, build, evaluate, load, split, width_of

EXAMPLES = """\
examples:
  course doctor my_attention.py:MultiHeadAttention --args "12, 12, num_heads=3" --num-heads 3
  course doctor model.py:CausalSelfAttention --args "GPTConfig(n_head=3, n_embd=12, block_size=64)"
  course doctor my_package/model/attention.py:Attention --args "dim=12, n_heads=6, n_kv_heads=2"
  course doctor my_package.model.attention:build --args "dim=12" --call "lambda m, x: m(x)[0]"

A file in a package is imported as a part of it, so relative imports work. The exit status is 0 if nothing is wrong,
1 if something was found and 2 if the code could not be examined.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the target and what is known about it."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add(
        "target",
        metavar="FILE.py:NAME",
        help="the file, or package.module, and the class, module, function or factory in it",
    )
    add(
        "--args",
        metavar="CODE",
        help="what the class or factory is called with, as between the brackets of a call, with names of the file: "
        '"3, 4, num_heads=2" or "Config(n_head=3)"',
    )
    add(
        "--d-in",
        type=int,
        help="width of a token (default: the width of the module's Linears or parameters that it can be run with)",
    )
    add("--batch", type=int, default=2, help="samples in the input (default: %(default)s)")
    add("--tokens", type=int, default=5, help="tokens in a sample (default: %(default)s)")
    add("--num-heads", type=int, help="how many heads the code should have")
    add("--num-kv-heads", type=int, help="how many heads of keys and values it should have")
    add("--not-causal", action="store_true", help="every token may see every other one, as in an encoder")
    add("--scale", type=float, help="what dot products are multiplied by, if not 1 / sqrt(head_dim)")
    add("--window", type=int, metavar="TOKENS", help="how many tokens a query may see, itself included")
    add("--lengths", type=_numbers, metavar="4,16", help="the only numbers of tokens that the code takes")
    add("--not-normalised", action="store_true", help="weights don't sum to 1 on purpose, as with a sigmoid")
    add("--context", type=int, metavar="TOKENS", help="tokens of cross-attention's context, which --call gets third")
    add("--expect", metavar="NAME", help="right code in the same file, built in the same way, to compare with")
    add("--call", metavar="CODE", help='how to run it, if not by x alone: "lambda m, x: m(x)[0]"')
    add(
        "--device",
        choices=("cpu", "cuda", "mps"),
        help="build it on this device whatever device it asks for; it is examined on the CPU in any case",
    )
    add("--json", action="store_true", help="plain data for other programs")


def run(args: argparse.Namespace) -> int:
    """Build the target, examine it and print the report; return its exit status."""
    target = split(args.target)
    print(f"course doctor: running {target.name} of {target.place} (importing a file runs it)", file=sys.stderr)
    import torch

    from course_lib.diagnosis import diagnose

    with redirect_stdout(sys.stderr):  # the output of the file is not part of the report
        code, call = _opened(target, args)
        x = torch.randn(*_sizes(code, call, target, args), generator=torch.Generator().manual_seed(0))
        options = {"num_heads": args.num_heads, "num_kv_heads": args.num_kv_heads, "call": call} | _intentions(args, x)
        if args.expect is not None:
            options["expect"] = _opened(target._replace(name=args.expect), args)[0]
        try:
            report = diagnose(code, x, causal=not args.not_causal, **options)
        except (TypeError, ValueError) as error:
            raise CourseError(str(error)) from None
    print(report.as_json() if args.json else report.in_words(not_causal="add --not-causal"))
    return report.exit_status


def _intentions(args: argparse.Namespace, x: Any) -> dict[str, Any]:
    """Return the options of `diagnose` that say what is meant, as far as no code has to be opened for them."""
    import torch

    if args.context is not None and args.context < 1:
        raise CourseError(f"--context must be at least 1, got {args.context}.")
    generator = torch.Generator().manual_seed(1)
    context = None if args.context is None else torch.randn(len(x), args.context, x.shape[-1], generator=generator)
    told = {"scale": args.scale, "window": args.window, "lengths": args.lengths, "context": context}
    return told | {"normalised": not args.not_normalised}


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _opened(target: Target, args: argparse.Namespace) -> tuple[Any, Any]:
    """Return the code to examine and the function that runs it."""
    import torch

    from course_lib.command.target.device import building_on

    torch.manual_seed(0)  # the same weights, and so the same results, each time
    with building_on(args.device):
        module = load(target)
        code = build(getattr(module, target.name), target, args.args, module)
    call = None if args.call is None else evaluate("--call", args.call, module)
    if call is not None and not callable(call):
        raise CourseError(
            f'--call {args.call!r} is not a function of (code, x): give one such as "lambda m, x: m(x)[0]".'
        )
    return code, call


def _sizes(code: Any, call: Any, target: Target, args: argparse.Namespace) -> tuple[int, int, int]:
    for option, number in (("--d-in", args.d_in), ("--batch", args.batch), ("--tokens", args.tokens)):
        if number is not None and number < 1:
            raise CourseError(f"{option} must be at least 1, got {number}.")
    d_in = args.d_in or width_of(code, call, args.batch, args.tokens)
    if d_in is None:
        raise CourseError(
            f"nothing in {target.name} says how wide a token is, and the code does not run with a width of 12: give "
            f"--d-in, or --args if it is a function that builds a module."
        )
    return args.batch, args.tokens, d_in
