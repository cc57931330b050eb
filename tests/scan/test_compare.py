"""How far two outputs of a model are apart."""

import pytest
import torch

from course_lib.scan.compare import difference


def test_it_is_measured_in_standard_deviations_of_the_first():
    assert difference(torch.tensor([0.0, 2.0, 4.0]), torch.tensor([0.0, 2.0, 5.0])) == pytest.approx(0.5)


def test_what_is_nan_in_the_second_alone_is_as_far_as_can_be():
    whole, broken = torch.tensor([0.0, 2.0, 4.0]), torch.tensor([0.0, torch.nan, 4.0])
    assert difference(whole, broken) == torch.inf
    assert difference(broken, broken) == 0.0, "where the first is nan, too, nothing is compared"
    assert difference(whole, whole[:2]) == torch.inf
