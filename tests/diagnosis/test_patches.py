"""Models of images of one size: more dots than can be traced, and few patches, from which on they are examined."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose

pytestmark = pytest.mark.one_in(2)


class Block(nn.Module):
    def __init__(self, scale=4**-0.5):
        super().__init__()
        self.qkv, self.proj, self.norm, self.scale = nn.Linear(12, 36), nn.Linear(12, 12), nn.LayerNorm(12), scale

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4)
        weights = (q @ k.mT * self.scale).softmax(-1)
        return x + self.proj((weights @ v).transpose(1, 2).flatten(2))


class Images(nn.Module):
    """Classifies images of 32 x 32 dots by 16 patches and a class token, or gives each patch a row of numbers."""

    def __init__(self, scale=4**-0.5, dense=False, beside=False):
        super().__init__()
        self.patches, self.dense, self.beside = nn.Conv2d(3, 12, 8, stride=8), dense, beside
        self.cls, self.position = nn.Parameter(torch.randn(1, 1, 12)), nn.Parameter(torch.randn(1, 17, 12))
        self.blocks = nn.ModuleList(Block(scale) for _ in range(2))
        self.head = nn.Linear(12, 5)

    def forward(self, images):
        if images.shape[-2:] != (32, 32):
            raise ValueError("images of 32 x 32 are needed")
        x = self.patches(images).flatten(2).mT
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.position
        for block in self.blocks:
            x = block(x)
        rest = images.mean((1, 2, 3))[:, None] if self.beside else 0
        return x[:, 1:].mT.unflatten(2, (4, 4)) if self.dense else self.head(x[:, 0]) + rest


@pytest.fixture
def images():
    return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_a_model_that_also_reads_the_image_elsewhere_is_refused_with_the_way_out(images):
    with pytest.raises(ValueError, match=r"x has 1024 tokens along its axes.*at most 62 tokens"):
        diagnose(Images(beside=True), images, causal=False)


def test_a_model_that_fails_on_its_images_says_why():
    with pytest.raises(
        ValueError, match=r"the code can't be run on x in test_patches.py:\d+: ValueError: images of 32 x 32"
    ):
        diagnose(Images(), torch.randn(2, 3, 16, 16), num_heads=3, causal=False)


def test_a_model_that_can_not_be_run_in_float64_says_so(images):
    model = Images()
    model.patches.register_forward_pre_hook(lambda module, given: given[0].type("torch.FloatTensor"))
    with pytest.raises(ValueError, match=r"can't be run in float64.*: RuntimeError"):
        diagnose(model, images, causal=False)


class Map(nn.Module):
    """Attention over the dots of a map, (batch, width, rows, columns), whose queries come from a convolution."""

    def __init__(self, scale):
        super().__init__()
        self.qkv, self.proj, self.scale = nn.Conv2d(12, 36, 1), nn.Conv2d(12, 12, 1), scale

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(x).reshape(b, 3, 3, c // 3, h * w).transpose(-1, -2).unbind(1)
        weights = (q @ k.mT * self.scale).softmax(-1)
        return self.proj((weights @ v).mT.reshape(b, c, h, w))


class Maps(nn.Module):
    """Images of 12 x 12 dots make maps of 3 x 3; of images that are cut to 6 x 6 they would be single dots."""

    def __init__(self, scale=0.5, *, layers=1, pool=True):
        super().__init__()
        torch.manual_seed(1)
        self.stem, self.head, self.pool = nn.Conv2d(3, 12, 4, 4), nn.Linear(12, 5), pool
        self.layers = nn.ModuleList(Map(scale) for _ in range(layers))

    def forward(self, images):
        x = self.stem(images)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x.mean((-1, -2))) if self.pool else x


@pytest.mark.parametrize(("layers", "pool"), [(1, True), (1, False), (2, True)])
def test_attention_on_the_map_of_a_convolution_is_examined(layers, pool):
    image = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    report = diagnose(Maps(layers=layers, pool=pool), image, num_heads=3, causal=False)
    assert report.ok and f"{layers} examined" in str(report) and "makes 9 tokens of x" in str(report), report
    wrong = diagnose(Maps(1.0, layers=layers, pool=pool), image, num_heads=3, causal=False)
    assert wrong.mistakes == ("missing-scale",), wrong


class Cut(Maps):
    """As one layer of maps, with the softmax over the queries: over a single token any axis is right."""

    def __init__(self, dim=-2, idle=0):
        super().__init__(layers=0)
        self.dim, self.idle = dim, nn.Linear(idle, idle) if idle else nn.Identity()
        self.qkv, self.proj, self.head = nn.Linear(12, 36), nn.Linear(12, 12), nn.Identity()

    def forward(self, images):
        qkv = self.qkv(self.stem(images).flatten(2).mT)
        q, k, v = qkv.unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4)
        return self.proj(((q @ k.mT / 2).softmax(self.dim) @ v).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("code", [Block(), nn.Sequential(Block(), Block())])
def test_attention_over_one_token_is_not_examined(code):
    report = diagnose(code, torch.randn(2, 1, 12), num_heads=3, causal=False, lengths=[1])
    assert report.exit_status == 2 and "it has one token" in str(report), report


@pytest.mark.slow
@pytest.mark.parametrize(("idle", "found"), [(0, []), (12, ["dead-parameter"])])
def test_what_makes_the_patches_is_not_called_idle(idle, found):
    report = diagnose(Cut(-1, idle), torch.randn(2, 3, 12, 12), num_heads=3, causal=False)
    assert [*report.mistakes] == found and "stem.weight" not in str(report), report
