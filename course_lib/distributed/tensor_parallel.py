"""Distribute attention over processes and compare it with one process, element by element: a script for torchrun.

    torchrun --nproc-per-node 2 -m course_lib.distributed.tensor_parallel --form multi-head

Every process draws the same weights and the same x on its CPU, runs the whole module and its part of it, and reports
what it holds, whether the results are equal, what was sent and how much it caches. Exit status: 0 everything is equal,
1 something differs, 2 the arguments were refused.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from course_lib.attention import GroupedQueryAttention, MultiHeadAttention, MultiQueryAttention
from course_lib.wording import counted

from .comparison import compare
from .launcher import REFUSED
from .manual_shards import Splittable, count_heads
from .mesh_placement import check_placement

FORMS = ("multi-head", "grouped-query", "multi-query")


class Parser(argparse.ArgumentParser):
    """Raises an exception instead of printing the usage, so that one process can report for all."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}.")


def parser() -> argparse.ArgumentParser:
    """The script's options."""
    parser = Parser(prog="tensor_parallel", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--form", nargs="+", choices=FORMS, default=["multi-head"], help="one or more (default: multi-head)")
    add("--num-heads", type=int, default=8, help="query heads (default: %(default)s)")
    add("--num-kv-heads", type=int, default=2, help="heads of keys and values of grouped-query (default: %(default)s)")
    add("--d-in", type=int, default=12, help="width of an input token (default: %(default)s)")
    add("--d-out", type=int, default=24, help="width of an output token (default: %(default)s)")
    add("--batch", type=int, default=2, help="samples (default: %(default)s)")
    add("--tokens", type=int, default=5, help="tokens in a sample (default: %(default)s)")
    return parser


def build(form: str, options: argparse.Namespace) -> Splittable:
    """The module of a form in float64, the same on every process; queries and keys are scaled up, as if trained."""
    torch.manual_seed(11)
    if form == "grouped-query":
        module = GroupedQueryAttention(options.d_in, options.d_out, options.num_heads, options.num_kv_heads)
    else:
        form_class = MultiHeadAttention if form == "multi-head" else MultiQueryAttention
        module = form_class(options.d_in, options.d_out, options.num_heads)
    with torch.no_grad():
        module.q_proj.weight *= 3
        module.k_proj.weight *= 3
    return module.double()


def read(arguments: Sequence[str] | None, num_devices: int) -> tuple[argparse.Namespace, dict[str, Splittable]]:
    """The options and the modules they ask for; ValueError in one sentence for what can't be done."""
    options = parser().parse_args(arguments)
    for name in ("batch", "tokens"):
        if getattr(options, name) < 1:
            raise ValueError(f"--{name} must be at least 1, got {getattr(options, name)}.")
    modules = {form: build(form, options) for form in options.form}
    for module in modules.values():
        check_placement(*count_heads(module), num_devices)
    return options, modules


@contextmanager
def process_group(timeout: float = 60.0) -> Iterator[torch.device]:
    """Join the group of all processes, and leave it at the end; without torchrun, the single process forms a group.

    A process waits `timeout` seconds for the others. Yields the device that it computes on.
    """
    device = device_of_process()
    options: dict[str, Any] = {"timeout": timedelta(seconds=timeout)}
    if device.type == "cuda":
        torch.cuda.set_device(device)
        options["device_id"] = device
    if "WORLD_SIZE" not in os.environ:
        store = dist.HashStore()  # pyright: ignore[reportPrivateImportUsage]  # public by PyTorch's documentation
        options |= {"store": store, "rank": 0, "world_size": 1}
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", **options)
    yield device
    # Before PyTorch 2.8, gloo's threads may still need the interpreter lock, which destroy_process_group holds.
    time.sleep(0.2)
    dist.destroy_process_group()


def device_of_process() -> torch.device:
    """One GPU per process of this machine if there are enough; otherwise the CPU for all of them.

    COURSE_DEVICE=cpu, which the kernel "Attention (CPU)" sets, forces the CPU.
    """
    processes_here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    wanted = os.environ.get("COURSE_DEVICE", "cuda").startswith("cuda")
    if wanted and dist.is_nccl_available() and torch.cuda.device_count() >= processes_here:
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison on this process and return the exit status; process 0 prints what all of them found."""
    with process_group() as device:
        rank, num_devices = dist.get_rank(), dist.get_world_size()
        try:
            options, modules = read(arguments, num_devices)
        except ValueError as refusal:
            if rank == 0:
                print(f"{REFUSED}{refusal}", file=sys.stderr, flush=True)
            dist.barrier()  # before any process ends, because torchrun then stops the others
            return 2
        if rank == 0:
            print(f"{num_devices} processes, {dist.get_backend()} on {device.type}", file=sys.stderr)
        mesh = init_device_mesh(device.type, (num_devices,))
        x = torch.randn(options.batch, options.tokens, options.d_in, dtype=torch.float64).to(device)
        all_same = True
        for form, module in modules.items():
            reports: list[tuple[list[str], bool]] = [([], False)] * num_devices
            dist.all_gather_object(reports, compare(module.to(device), x, mesh))
            all_same &= all(same for _, same in reports)
            if rank == 0:
                on = f"on {counted(num_devices, 'device')}"
                print(f"{form}, {options.num_heads} heads of width {module.head_dim}, {on}")
                for lines, _ in reports:
                    print(*lines, sep="\n", flush=True)
    return 0 if all_same else 1


if __name__ == "__main__":
    sys.exit(main())
