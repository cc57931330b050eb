"""COURSE_DEVICE chooses the device, and a device that is not there is named in a sentence."""

import pytest
import torch

from course_lib.device import course_device


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)


@pytest.fixture
def one_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)


def test_without_the_variable_it_is_the_cpu(monkeypatch):
    monkeypatch.delenv("COURSE_DEVICE", raising=False)
    assert course_device() == torch.device("cpu")


@pytest.mark.parametrize("name", ["cpu", ""])
def test_the_cpu_by_name(monkeypatch, name):
    monkeypatch.setenv("COURSE_DEVICE", name)
    assert course_device() == torch.device("cpu")


@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_a_gpu_that_is_there(monkeypatch, one_gpu, name):
    monkeypatch.setenv("COURSE_DEVICE", name)
    assert course_device() == torch.device(name)


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "cuda:1"])
def test_a_gpu_where_there_is_none(monkeypatch, no_gpu, name):
    monkeypatch.setenv("COURSE_DEVICE", name)
    with pytest.raises(RuntimeError) as caught:
        course_device()
    assert str(caught.value) == (
        f"COURSE_DEVICE asks for '{name}', but PyTorch sees 0 GPUs here: choose the kernel 'Attention (CPU)' (menu "
        "Kernel > Change Kernel), or set COURSE_DEVICE=cpu, and run again."
    )


def test_a_second_gpu_where_there_is_one(monkeypatch, one_gpu):
    monkeypatch.setenv("COURSE_DEVICE", "cuda:1")
    with pytest.raises(RuntimeError, match="asks for 'cuda:1', but PyTorch sees 1 GPU"):
        course_device()


WRONG = ["gpu", "CUDA", "cuda:", "cuda:x", "cuda:-1", "cuda:0:1", "mps", "cpu:", "cuda:²", " cpu", "cpu\n"]


@pytest.mark.parametrize("name", WRONG)
def test_any_other_word_is_refused(monkeypatch, one_gpu, name):
    monkeypatch.setenv("COURSE_DEVICE", name)
    with pytest.raises(ValueError) as caught:
        course_device()
    assert str(caught.value) == f"COURSE_DEVICE is {name!r}: set it to 'cpu' or 'cuda'."
