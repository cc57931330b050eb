"""Spread attention over processes and compare it with one process, number by number: a script for torchrun.

    torchrun --nproc-per-node 2 -m course_lib.distributed.tensor_parallel --form multi-head

Every process draws the same weights and the same x on its CPU, runs the whole module and its part of it, and says what
it holds, whether the numbers are the same, what was sent and what a cache would keep. Exit status: 0 all is the same,
1 something differs, 2 the arguments were refused.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from course_lib.attention import GroupedQueryAttention, MultiHeadAttention, MultiQueryAttention

from .comparison import compare
from .launch import REFUSED
from .processes import process_group
from .shards import heads_of
from .spread import check_spread

FORMS = ("multi-head", "grouped-query", "multi-query")


class Parser(argparse.ArgumentParser):
    """Refuses with an exception instead of a page of usage, so that one process can speak for all."""

    def error(self, message: str) -> None:
        raise ValueError(f"{message}.")


def parser() -> argparse.ArgumentParser:
    """What the script may be told."""
    parser = Parser(prog="tensor_parallel", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--form", nargs="+", choices=FORMS, default=["multi-head"], help="one or more (default: multi-head)")
    add("--num-heads", type=int, default=8, help="query heads (default: %(default)s)")
    add("--num-kv-heads", type=int, default=2, help="heads of keys and values of grouped-query (default: %(default)s)")
    add("--d-in", type=int, default=12, help="width of a token that comes in (default: %(default)s)")
    add("--d-out", type=int, default=24, help="width of a token that goes out (default: %(default)s)")
    add("--batch", type=int, default=2, help="samples (default: %(default)s)")
    add("--tokens", type=int, default=5, help="tokens in a sample (default: %(default)s)")
    return parser


def build(form: str, told: argparse.Namespace) -> nn.Module:
    """The module of a form in 64 bits, the same on every process; queries and keys scaled up, as if trained."""
    torch.manual_seed(11)
    if form == "grouped-query":
        module = GroupedQueryAttention(told.d_in, told.d_out, told.num_heads, told.num_kv_heads)
    else:
        kind = MultiHeadAttention if form == "multi-head" else MultiQueryAttention
        module = kind(told.d_in, told.d_out, told.num_heads)
    with torch.no_grad():
        module.q_proj.weight *= 3
        module.k_proj.weight *= 3
    return module.double()


def read(arguments: Sequence[str] | None, num_devices: int) -> tuple[argparse.Namespace, dict[str, nn.Module]]:
    """The arguments and the modules they ask for; ValueError in one sentence for what can't be done."""
    told = parser().parse_args(arguments)
    for name in ("batch", "tokens"):
        if getattr(told, name) < 1:
            raise ValueError(f"--{name} must be at least 1, got {getattr(told, name)}.")
    modules = {form: build(form, told) for form in told.form}
    for module in modules.values():
        check_spread(*heads_of(module), num_devices)
    return told, modules


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison on this process; process 0 prints what all of them found.

    Args:
        arguments: those of the command line if None.

    Returns:
        The exit status.
    """
    with process_group() as device:
        rank, num_devices = dist.get_rank(), dist.get_world_size()
        try:
            told, modules = read(arguments, num_devices)
        except ValueError as refusal:
            if rank == 0:
                print(f"{REFUSED}{refusal}", file=sys.stderr, flush=True)
            dist.barrier()  # nobody leaves before it is said: torchrun stops the others when one has left
            return 2
        if rank == 0:
            print(f"{num_devices} processes, {dist.get_backend()} on {device.type}", file=sys.stderr)
        mesh = init_device_mesh(device.type, (num_devices,))
        x = torch.randn(told.batch, told.tokens, told.d_in, dtype=torch.float64).to(device)
        all_same = True
        for form, module in modules.items():
            found = [None] * num_devices
            dist.all_gather_object(found, compare(module.to(device), x, mesh))
            all_same &= all(same for _, same in found)
            if rank == 0:
                on = f"on {num_devices} device{'s' * (num_devices > 1)}"
                print(f"{form}, {told.num_heads} heads of {module.head_dim} numbers, {on}")
                for lines, _ in found:
                    print(*lines, sep="\n", flush=True)
    return 0 if all_same else 1


if __name__ == "__main__":
    sys.exit(main())
