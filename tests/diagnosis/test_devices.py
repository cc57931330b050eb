"""Whether tensors are made on the device of x, in code that is told its device, or runs within one."""

from operator import attrgetter
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose

HEADS, D = 3, 12
device = "cuda" if torch.cuda.is_available() else "cpu"
X = torch.randn(2, 5, D, generator=torch.Generator().manual_seed(0))


class Base(nn.Module):
    """Attention with the bool mask that `keep` makes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=self.keep(x.shape[1]))
        return self.out(heads.transpose(1, 2).flatten(2))


class Told(Base):
    """Its constructor is given a device, as a string, in settings, or in settings that it keeps."""

    def __init__(self, device, settings, path):
        super().__init__()
        self.dev, self.settings, self.of_settings, self.path = torch.device(device), settings, settings.device, path

    def keep(self, count):
        return torch.ones(count, count, dtype=torch.bool, device=attrgetter(self.path)(self)).tril()


@pytest.mark.parametrize("path", ["dev", "of_settings", "settings.device"])
def test_a_device_that_the_constructor_was_given_is_that_of_x(path):
    settings = SimpleNamespace(device="cpu")
    code = Told("cpu", settings, path)
    assert diagnose(code, X, num_heads=HEADS).ok
    assert settings.device == "cpu" and code.dev == torch.device("cpu")


class MovesByItself(Base):
    """Keeps a mask on the device that its constructor is given."""

    def __init__(self, device):
        super().__init__()
        self.seen = torch.ones(9, 9, dtype=torch.bool).tril().to(device)

    def keep(self, count):
        return self.seen[:count, :count]


def test_what_the_constructor_moves_to_the_given_device_is_there():
    assert diagnose(MovesByItself("cpu"), X, num_heads=HEADS).ok


class MayBeTold(Base):
    """Its constructor can be given a device, and was not."""

    def __init__(self, device=None):
        super().__init__()
        self.device = device

    def keep(self, count):
        return torch.ones(count, count, dtype=torch.bool, device=self.device).tril()


def test_a_device_that_the_constructor_could_have_been_given_is_that_of_x():
    assert diagnose(MayBeTold(), X, num_heads=HEADS).ok


class NumberOfDevice(Base):
    """Moves its mask as code did before `x.device`: by the number of the device, or to the GPU if x is on one."""

    def __init__(self, way):
        super().__init__()
        self.way = way

    def keep(self, count):
        weight, mask = self.qkv.weight, torch.ones(count, count, dtype=torch.bool).tril()
        if self.way == "get_device":
            return mask.to("cpu" if weight.get_device() == -1 else weight.get_device())
        if self.way == "is_cuda":
            return mask.cuda() if weight.is_cuda else mask
        return mask


@pytest.mark.parametrize(("way", "found"), [("get_device", ()), ("is_cuda", ()), ("", ("device-pinned",))])
def test_older_ways_to_move_a_mask_are_known(way, found):
    report = diagnose(NumberOfDevice(way), X, num_heads=HEADS)
    assert report.mistakes == found, report
