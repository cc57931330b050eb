"""The machine is described in words, and its limits are measured, not made up."""

import types

import pytest
import torch

from tools.performance import machine
from tools.performance.machine import describe_machine, measure_limits

MIB = 1 << 20


def test_limits_are_rates_of_work_that_is_known(monkeypatch):
    seconds = {"read": 0.5, "copy": 0.25, "float32 as is": 0.125, "float32 transposed": 0.25}
    clock = iter([seconds[name] * factor for factor in (2, 1, 3, 4, 5) for name in seconds])  # the fastest round counts
    monkeypatch.setattr(machine, "_seconds", lambda run: next(clock))
    (own,) = measure_limits("cpu", ("float32",), quick=True)
    assert own.read_gb_per_s == pytest.approx(4 * MIB / 0.5 / 1e9)
    assert own.copy_gb_per_s == pytest.approx(2 * 4 * MIB / 0.25 / 1e9)
    assert own.matmul_gflops == pytest.approx(2 * 256**3 / 0.125 / 1e9)
    assert own.milliseconds(4 * MIB, 0) == pytest.approx(500)
    assert own.milliseconds(4 * MIB, 8 * 2 * 256**3) == pytest.approx(1000)


def test_limits_are_timed_to_the_end(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append(True))
    assert machine._seconds(lambda: types.SimpleNamespace(is_cuda=False)) >= 0 and not waited
    assert machine._seconds(lambda: types.SimpleNamespace(is_cuda=True)) >= 0 and waited


def test_the_machine_is_described_in_words_without_names_of_places():
    own = describe_machine()
    assert own["cores"] >= 1 and own["threads"] == torch.get_num_threads()
    assert own["memory_bytes"] > 1e8 and own["torch"] == torch.__version__
    assert own["processor"] and "/" not in own["processor"].replace(" / ", "")
    assert len(own["date"]) == 10


def test_a_machine_that_does_not_tell(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "CPU_INFO", tmp_path / "none")
    monkeypatch.setattr(machine.platform, "processor", lambda: "")
    monkeypatch.setattr(machine.platform, "machine", lambda: "arm64")
    assert machine.processor_name() == "arm64"
    monkeypatch.delattr(machine.os, "sysconf")
    assert machine.memory_bytes() is None


def test_a_gpu_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    gpu = types.SimpleNamespace(name="a GPU", total_memory=5)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: gpu)
    own = describe_machine()
    assert (own["gpu"], own["gpu_memory_bytes"]) == ("a GPU", 5)
