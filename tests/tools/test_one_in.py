"""A sample of a test's cases has as many as it says, and every value of a short parameter."""

import itertools

import pytest
from sampling import sample


def product(**parameters):
    return [list(zip(parameters, values)) for values in itertools.product(*parameters.values())]


@pytest.mark.parametrize("first", range(18))
def test_each_value_is_there(first):
    """A third of 3 x 2 x 3 cases: every third case would have the same value of the last parameter."""
    cases = product(a="xyz", b=(False, True), c=(1, 2, 3))
    taken = sample(cases, 6, first)
    assert len(taken) == 6 and {value for i in taken for value in cases[i]} == {value for case in cases for value in case}


def test_a_long_parameter_is_spread():
    assert sample(product(a=range(20)), 4, 2) == {2, 7, 12, 17}


def test_more_cases_for_values_that_are_missing():
    """Two values of `b` stand in one case each; `a` has more values than cases are wanted."""
    cases = [[("a", i), ("b", max(0, i - 7))] for i in range(10)]
    taken = sample(cases, 3, 0)
    assert {8, 9} <= taken and {dict(cases[i])["b"] for i in taken} == {0, 1, 2}
